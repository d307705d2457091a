/* The windows of some outputs as rows of a matrix, with zeros where they are on the padding: for kernels whose rows are
 * so short, at most RUN_MOST floats, that products over them one by one are slow. They are copied from an image that has
 * its padding around it, RUN_MOST floats or half as many at a time: what is too much, the next copy overwrites.
 */
#ifndef INSITU_PATCHES_H
#define INSITU_PATCHES_H

#include <stddef.h>

#include "isa/fma.h"
#include "kernels/shapes.h"

enum { RUN_MOST = 8 };

/* an image with its padding, as far as windows reach; `floats` has room for what is copied too much */
typedef struct {
    int32_t rows, row, floats;
} padded_size;

static inline padded_size padded(const conv2d_shape *s)
{
    const int32_t rows = (s->oh - 1) * s->sh + (s->kh - 1) * s->dh + 1;
    const int32_t row = ((s->ow - 1) * s->sw + (s->kw - 1) * s->dw + 1) * s->c;
    const padded_size found = {rows, row, rows * row + RUN_MOST};
    return found;
}

/* `to` has padded_size floats, of which the padding is zero from before */
static inline void pad_image(float *to, const float *x, padded_size p, const conv2d_shape *s)
{
    const int32_t room = p.row - s->pl * s->c, count = room < s->w * s->c ? room : s->w * s->c;
    for (int32_t r = 0; r < s->h && r + s->pt < p.rows; r++, x += s->w * s->c) {
        float *row = to + (ptrdiff_t)(r + s->pt) * p.row + s->pl * s->c;
        for (int32_t k = 0; k < count; k++) {
            row[k] = x[k];
        }
    }
}

static inline void copy_window_row(float *restrict to, const float *restrict from, int32_t run)
{
    if (run <= RUN_MOST / 2) {
        for (int k = 0; k < RUN_MOST / 2; k++) {
            to[k] = from[k];
        }
        return;
    }
    for (int k = 0; k < RUN_MOST; k++) {
        to[k] = from[k];
    }
}

/* the windows of `count` outputs from output p on, counted row by row: to[count,u,v,c] and RUN_MOST floats after them */
static inline void patches(float *to, const float *image, int32_t row, int32_t p, int32_t count,
                           const conv2d_shape *shape)
{
    const conv2d_shape copy = *shape, *s = &copy; /* a copy: stores of vectors may alias anything */
    const int32_t together = s->dw == 1, run = together ? s->kw * s->c : s->c;
    for (int32_t i = p / s->ow, j = p % s->ow; count > 0; count--) {
        const float *from = image + (ptrdiff_t)i * s->sh * row + j * s->sw * s->c;
        for (int32_t u = 0; u < s->kh; u++, from += s->dh * row) {
            for (int32_t v = 0; v < (together ? 1 : s->kw); v++, to += run) {
                copy_window_row(to, from + v * s->dw * s->c, run);
            }
        }
        j = j + 1 < s->ow ? j + 1 : 0;
        i += j == 0;
    }
}

#endif
