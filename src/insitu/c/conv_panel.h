/* A convolution with some of its output channels, their weights lying as b of a product: panel[k][row], k = (u,v,c). */
#ifndef INSITU_CONV_PANEL_H
#define INSITU_CONV_PANEL_H

#include "kernels.h"
#include "spans.h"

/* what an output row takes from one row of inputs; a start that is not y is the bias, and goes in with the first tap */
static inline void panel_row(float *y, const float *start, const float *x, const float *panel, const conv2d_shape *s,
                             matrix_shape m)
{
    const int32_t ci = s->c / s->groups, bias_row = start == y ? m.y_row : 0;
    for (span t = span_at(s, 0); t.j < s->ow; t = span_at(s, t.j + t.count)) {
        const int32_t together = s->dw == 1 && s->groups == 1 && t.taps ? t.taps : 1;
        const float *from = start && bias_row ? start + t.j * m.y_row : start;
        float *to = y + t.j * m.y_row;
        m.rows = t.count;
        m.depth = t.taps ? together * ci : 0;
        m.start_row = bias_row;
        for (int32_t v = t.tap; v < t.tap + t.taps || v == t.tap; v += together) {
            matrix_f32(to, from, t.taps ? x + (t.j * s->sw + v * s->dw - s->pl) * s->c : x, panel + v * ci * m.b_row, &m);
            from = to;
            m.start_row = m.y_row;
        }
    }
}

/* y, x and b at the first of `cols` channels; `row` floats lie between two rows of the panel */
static inline void conv2d_panel(float *y, const float *x, const float *panel, const float *b, int32_t cols,
                                int32_t row, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups;
    matrix_shape m = {0, cols, 0, s->o, 0, s->sw * s->c, 1, row};
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, y += s->ow * s->o) {
            const float *start = b;
            int32_t done = 0;
            for (int32_t u = 0; u < s->kh; u++) {
                const int32_t r = row_under(s, i, u);
                if (r >= 0) {
                    panel_row(y, start, x + r * s->w * s->c, panel + u * s->kw * ci * row, s, m);
                    start = y;
                    done = 1;
                }
            }
            if (!done) { /* a window on padding alone */
                m.rows = s->ow;
                matrix_f32(y, b, x, panel, &m);
            }
        }
    }
}

#endif
