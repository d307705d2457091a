/* The windows of some outputs as rows of a matrix, with zeros where they are on the padding: for kernels whose rows are
 * so short, at most RUN_MOST floats, that products over them one by one are slow. */
#ifndef INSITU_PATCHES_H
#define INSITU_PATCHES_H

#include "isa/fma.h"
#include "isa/runs.h"
#include "kernels/spans.h"

/* the window of output i, j: to[u,v,c] */
static inline void patch(float *to, const float *x, int32_t i, int32_t j, const conv2d_shape *s)
{
    const int32_t left = j * s->sw - s->pl, run = s->dw == 1 ? s->kw * s->c : s->c;
    const tap_range v = taps_inside(left, s->kw, s->dw, s->w);
    for (int32_t u = 0; u < s->kh; u++, to += s->kw * s->c) {
        const int32_t r = row_under(s, i, u), inside = r >= 0 ? s->c : 0;
        const float *from = x + ((ptrdiff_t)(r >= 0 ? r : 0) * s->w + left) * s->c;
        if (s->dw == 1) {
            copy_some_f32(to, from, v.first * inside, v.last * inside, run);
            continue;
        }
        for (int32_t k = 0; k < s->kw; k++) {
            const int32_t count = k >= v.first && k < v.last ? inside : 0;
            copy_some_f32(to + k * s->c, from + k * s->dw * s->c, 0, count, run);
        }
    }
}

/* the windows of `count` outputs of one image from output p on, counted row by row */
static inline void patches(float *to, const float *x, int32_t p, int32_t count, const conv2d_shape *shape)
{
    const conv2d_shape copy = *shape, *s = &copy; /* a copy: stores of vectors may alias anything */
    const int32_t k = s->kh * s->kw * s->c;
    for (int32_t i = p / s->ow, j = p % s->ow; count > 0; count--, to += k) {
        patch(to, x, i, j, s);
        j = j + 1 < s->ow ? j + 1 : 0;
        i += j == 0;
    }
}

#endif
