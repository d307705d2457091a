/* The windows of some outputs as rows of a matrix, with zeros where they are on the padding: for kernels whose rows are
 * so short, at most RUN_MOST floats, that products over them one by one are slow. They are copied from an image that has
 * its padding around it, RUN_MOST floats or half as many at a time: what is too much, the next copy overwrites.
 */
#ifndef INSITU_PATCHES_H
#define INSITU_PATCHES_H

#include <stddef.h>

#include "isa/fma.h"
#include "isa/inline.h"
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

/* `most` floats, at once where the compiler has vectors of them */
ALWAYS_INLINE void copy_window_row(const int most, float *restrict to, const float *restrict from)
{
    float row[RUN_MOST];
    for (int k = 0; k < most; k++) {
        row[k] = from[k];
    }
    for (int k = 0; k < most; k++) {
        to[k] = row[k];
    }
}

/* the windows of `count` outputs from i, j on: rows of `run` floats, `pieces` of them for each row of the kernel, whose
 * starts are `apart` */
ALWAYS_INLINE void copy_windows(const int most, float *to, const float *image, int32_t row, int32_t i, int32_t j,
                                int32_t count, int32_t run, int32_t pieces, int32_t apart, const conv2d_shape *s)
{
    const int32_t kh = s->kh, ow = s->ow, down = s->dh * row, right = s->sw * s->c, next = s->sh * row;
    for (; count > 0; count--) {
        const float *from = image + (ptrdiff_t)i * next + j * right;
        for (int32_t u = 0; u < kh; u++, from += down) {
            for (int32_t v = 0; v < pieces; v++, to += run) {
                copy_window_row(most, to, from + v * apart);
                KEEP(to); /* or compilers make a loop over several rows of it, with checks whether they overlap */
            }
        }
        j = j + 1 < ow ? j + 1 : 0;
        i += j == 0;
    }
}

/* the windows of `count` outputs from output p on, counted row by row: to[count,u,v,c] and RUN_MOST floats after them */
static inline void patches(float *to, const float *image, int32_t row, int32_t p, int32_t count,
                           const conv2d_shape *s)
{
    const int32_t together = s->dw == 1, run = together ? s->kw * s->c : s->c, pieces = together ? 1 : s->kw;
    const int32_t i = p / s->ow, j = p % s->ow, apart = s->dw * s->c;
    if (run <= RUN_MOST / 2) {
        copy_windows(RUN_MOST / 2, to, image, row, i, j, count, run, pieces, apart, s);
    } else {
        copy_windows(RUN_MOST, to, image, row, i, j, count, run, pieces, apart, s);
    }
}

#endif
