/* A convolution with some of its output channels, whose weights are b of a product: panel[k][row], k = (u,v,c). */
#ifndef INSITU_CONV_PANEL_H
#define INSITU_CONV_PANEL_H

#include "kernels.h"
#include "kernels/spans.h"

enum { PANEL_RUNS = 16 }; /* kernel rows that are summed at once */

/* some rows of inputs and the weights of the kernel row above each, with `count` of them inside */
typedef struct {
    const float *x[PANEL_RUNS], *panel[PANEL_RUNS];
    int32_t count;
} panel_rows;

/* the contribution of some rows of inputs to an output row; a start other than y is the bias, added with the first tap
 * */
static inline void panel_row(float *y, const float *start, const panel_rows *rows, const conv2d_shape *s,
                             matrix_shape m)
{
    const int32_t ci = s->c / s->groups, bias_row = start == y ? m.y_row : 0;
    matrix_run runs[PANEL_RUNS];
    for (span t = span_at(s, 0); t.j < s->ow; t = span_at(s, t.j + t.count)) {
        const int32_t together = s->dw == 1 && s->groups == 1 && t.taps ? t.taps : 1;
        const float *from = start ? start + t.j * bias_row : NULL;
        float *to = y + t.j * m.y_row;
        m.rows = t.count;
        m.depth = t.taps ? together * ci : 0;
        m.start_row = bias_row;
        for (int32_t v = t.tap; v < t.tap + t.taps || v == t.tap; v += together) {
            for (int32_t k = 0; k < rows->count; k++) {
                runs[k].a = rows->x[k] + (t.taps ? (t.j * s->sw + v * s->dw - s->pl) * s->c : 0);
                runs[k].b = rows->panel[k] + v * ci * m.b_row;
            }
            matrix_runs_f32(to, from, runs, t.taps ? rows->count : 0, &m);
            from = to;
            m.start_row = m.y_row;
        }
    }
}

/* the rows under taps u, u + 1, .. of output row i; returns the tap to continue with */
static inline int32_t panel_under(panel_rows *rows, const float *x, const float *panel, int32_t i, int32_t u,
                                  int32_t panel_row, const conv2d_shape *s)
{
    for (rows->count = 0; u < s->kh && rows->count < PANEL_RUNS; u++) {
        const int32_t r = row_under(s, i, u);
        if (r >= 0) {
            rows->x[rows->count] = x + r * s->w * s->c;
            rows->panel[rows->count++] = panel + u * s->kw * (s->c / s->groups) * panel_row;
        }
    }
    return u;
}

/* y, x and b at the first of `cols` channels; rows of the panel are `row` floats apart */
static inline void conv2d_panel(float *y, const float *x, const float *panel, const float *b, int32_t cols,
                                int32_t row, const conv2d_shape *s)
{
    const matrix_shape m = {0, cols, 0, s->o, 0, s->sw * s->c, 1, row};
    panel_rows rows;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, y += s->ow * s->o) {
            const float *start = b;
            for (int32_t u = 0; u < s->kh; start = y) {
                u = panel_under(&rows, x, panel, i, u, row, s);
                panel_row(y, start, &rows, s, m);
            }
        }
    }
}

#endif
