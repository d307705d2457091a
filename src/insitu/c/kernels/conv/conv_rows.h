/* A convolution with some of its output channels, whose weights are b of a product: panel[k][row], k = (u,v,c). Made for
 * machines with vectors: outputs whose windows have the same taps inside form one product, along a row of outputs or,
 * at the left and right edge of images, down a column. conv_panel.h is the smaller one.
 */
#ifndef INSITU_CONV_ROWS_H
#define INSITU_CONV_ROWS_H

#include "kernels.h"
#include "kernels/spans.h"

enum { ROW_RUNS = 32 }; /* taps, or rows of them, that are summed at once */

/* the outputs of one image that the products below compute */
typedef struct {
    float *y;
    const float *x, *panel, *b, *more;
    float lo, hi;
    int32_t cols, row; /* output channels; floats between rows of the panel */
} conv_part;

/* outputs from i, j on: `count` of them along the row, or down the column; taps u and v as given */
typedef struct {
    int32_t i, j, count, down;
    tap_range u, v;
} conv_block;

static inline void conv_block_sum(const conv_part *t, const conv_block *k, const conv2d_shape *s)
{
    const int32_t together = s->dw == 1 ? k->v.last - k->v.first : 1;
    const ptrdiff_t at = ((ptrdiff_t)k->i * s->ow + k->j) * s->o;
    float *y = t->y + at;
    const matrix_end end = end_of(t->more ? t->more + at : NULL, t->lo, t->hi);
    const int32_t a_row = k->down ? s->sh * s->w * s->c : s->sw * s->c, y_row = k->down ? s->ow * s->o : s->o;
    matrix_shape m = {k->count, t->cols, together * s->c, y_row, 0, a_row, 1, t->row};
    const float *start = t->b;
    matrix_run runs[ROW_RUNS];
    int32_t count = 0;
    for (int32_t u = k->u.first; u < k->u.last; u++) {
        const float *x = t->x + ((ptrdiff_t)(k->i * s->sh + u * s->dh - s->pt) * s->w + k->j * s->sw - s->pl) * s->c;
        for (int32_t v = k->v.first; v < k->v.last; v += together) {
            if (count == ROW_RUNS) {
                matrix_runs_f32(y, start, runs, count, &m);
                start = y;
                m.start_row = y_row;
                count = 0;
            }
            runs[count].a = x + v * s->dw * s->c;
            runs[count++].b = t->panel + (ptrdiff_t)(u * s->kw + v) * s->c * t->row;
        }
    }
    m.depth = count ? m.depth : 0;
    matrix_ends_f32(y, start, runs, count, &end, &m);
}

/* the outputs first..last-1 of an axis whose windows are inside */
static inline tap_range windows_inside(int32_t stride, int32_t before, int32_t reach, int32_t size, int32_t outputs)
{
    const int32_t first = (before + stride - 1) / stride, room = size - 1 - reach + before;
    const int32_t last = room < 0 ? 0 : room / stride + 1, end = last < outputs ? last : outputs;
    const tap_range found = {first < end ? first : end, end > 0 ? end : 0};
    return found;
}

static inline tap_range taps_at(int32_t i, int32_t stride, int32_t before, int32_t kernel, int32_t dilation,
                                int32_t size)
{
    return taps_inside(i * stride - before, kernel, dilation, size);
}

/* the columns left and right of `whole` of the rows from i on */
static inline void conv_edges(const conv_part *t, int32_t i, int32_t rows, tap_range u, tap_range whole,
                              const conv2d_shape *s)
{
    for (int32_t j = 0; j < s->ow; j++) {
        if (j >= whole.first && j < whole.last) {
            j = whole.last - 1;
            continue;
        }
        const conv_block k = {i, j, rows, 1, u, taps_at(j, s->sw, s->pl, s->kw, s->dw, s->w)};
        conv_block_sum(t, &k, s);
    }
}

/* all outputs of one image */
static inline void conv_image(const conv_part *t, const conv2d_shape *s)
{
    const tap_range rows = windows_inside(s->sh, s->pt, (s->kh - 1) * s->dh, s->h, s->oh);
    const tap_range columns = windows_inside(s->sw, s->pl, (s->kw - 1) * s->dw, s->w, s->ow);
    const tap_range all = {0, s->kw};
    for (int32_t i = 0; i < s->oh; i++) {
        const tap_range u = taps_at(i, s->sh, s->pt, s->kh, s->dh, s->h);
        const conv_block k = {i, columns.first, columns.last - columns.first, 0, u, all};
        if (k.count > 0) {
            conv_block_sum(t, &k, s);
        }
        if (i < rows.first || i >= rows.last) {
            conv_edges(t, i, 1, u, columns, s);
        } else if (i == rows.first) {
            conv_edges(t, i, rows.last - rows.first, u, columns, s);
        }
    }
}

/* all images: y, b and more from the first of t->cols channels on */
static inline void conv2d_rows(conv_part t, const conv2d_shape *s)
{
    for (int32_t n = 0; n < s->n; n++, t.x += s->h * s->w * s->c, t.y += s->oh * s->ow * s->o) {
        conv_image(&t, s);
        t.more = t.more ? t.more + s->oh * s->ow * s->o : NULL;
    }
}

#endif
