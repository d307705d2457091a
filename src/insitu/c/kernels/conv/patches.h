/* The windows of some outputs as rows of a matrix, with zeros where they are on the padding: for kernels whose rows are
 * so short, at most RUN_MOST floats, that products over them one by one are slow. */
#ifndef INSITU_PATCHES_H
#define INSITU_PATCHES_H

#include "isa/fma.h"
#include "isa/runs.h"
#include "kernels/spans.h"

/* a row of a window, with the taps v of it inside */
static inline void patch_row(float *to, const float *from, tap_range v, int32_t run, const conv2d_shape *s)
{
    if (s->dw == 1) {
        copy_some_f32(to, from, v.first * s->c, v.last * s->c, run);
        return;
    }
    for (int32_t k = 0; k < s->kw; k++) {
        copy_some_f32(to + k * s->c, from + k * s->dw * s->c, 0, k >= v.first && k < v.last ? s->c : 0, run);
    }
}

/* the window of output i, j: to[u,v,c] */
static inline void patch(float *to, const float *x, int32_t i, int32_t j, const conv2d_shape *s)
{
    const int32_t top = i * s->sh - s->pt, left = j * s->sw - s->pl, row = s->kw * s->c;
    const tap_range u = taps_inside(top, s->kh, s->dh, s->h), v = taps_inside(left, s->kw, s->dw, s->w);
    const float *from = x + ((ptrdiff_t)(top + u.first * s->dh) * s->w + left) * s->c;
    clear_f32(to, u.first * row);
    for (int32_t k = u.first; k < u.last; k++, from += s->dh * s->w * s->c) {
        patch_row(to + k * row, from, v, s->dw == 1 ? row : s->c, s);
    }
    clear_f32(to + u.last * row, (s->kh - u.last) * row);
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
