/* windows.h on vectors of channels: gradients stay in registers over all pixels of an image. */
#ifndef INSITU_ISA_LANES_WINDOWS_H
#define INSITU_ISA_LANES_WINDOWS_H

#include "isa/inline.h"
#include "isa/lanes.h"

/* one row of outputs: its rows of x, at the first of some channels, and the taps u and columns that are inside */
typedef struct {
    const float *x[3];
    ptrdiff_t column[3], step; /* of the three columns of a window; from one window to the next */
    tap_range u, whole;
} window_row;

ALWAYS_INLINE vf window_load(const int full, vm m, const float *p)
{
    return full ? vf_full(p) : vf_load(m, p);
}

ALWAYS_INLINE void window_store(const int full, float *p, vm m, vf v)
{
    if (full) {
        vf_put(p, v);
    } else {
        vf_store(p, m, v);
    }
}

/* the taps of a window that starts at `start` that are on 0..size-1: taps_inside without divisions */
ALWAYS_INLINE tap_range window_taps(int32_t start, int32_t dilation, int32_t size)
{
    const int32_t middle = start + dilation, end = middle + dilation;
    const tap_range found = {(start < 0) + (middle < 0) + (end < 0), 3 - (start >= size) - (middle >= size) - (end >= size)};
    return found;
}

/* the outputs of a row whose windows are inside */
ALWAYS_INLINE tap_range whole_columns(const conv2d_shape *s)
{
    const int32_t last = s->w - 1 - 2 * s->dw + s->pl, first = (s->pl + s->sw - 1) / s->sw;
    const int32_t end = last < 0 ? 0 : last / s->sw + 1 < s->ow ? last / s->sw + 1 : s->ow;
    const tap_range found = {first < end ? first : end, end};
    return found;
}

ALWAYS_INLINE window_row window_row_at(const float *x, int32_t i, tap_range whole, const conv2d_shape *s)
{
    window_row d;
    UNROLL
    for (int k = 0; k < 3; k++) {
        d.x[k] = x + (ptrdiff_t)(i * s->sh + k * s->dh - s->pt) * s->w * s->c;
        d.column[k] = (ptrdiff_t)(k * s->dw - s->pl) * s->c;
    }
    d.step = (ptrdiff_t)s->sw * s->c;
    d.u = window_taps(i * s->sh - s->pt, s->dh, s->h);
    d.whole = whole;
    return d;
}

/* known ranges of taps, first + 4 last: all, without the first, without the last; or not known */
enum { TAPS_ALL = 0 + 4 * 3, TAPS_LATER = 1 + 4 * 3, TAPS_EARLIER = 0 + 4 * 2, TAPS_ANY = -1 };

/* is tap i of three inside? `known` is one of the above, `range` counts if it is TAPS_ANY */
ALWAYS_INLINE int window_inside(const int known, tap_range range, int i)
{
    return known < 0 ? i >= range.first && i < range.last : i >= known % 4 && i < known / 4;
}

ALWAYS_INLINE int window_known(tap_range range)
{
    const int code = range.first + 4 * range.last;
    return code == TAPS_ALL || code == TAPS_LATER || code == TAPS_EARLIER ? code : TAPS_ANY;
}

/* what one pixel adds to the gradients */
ALWAYS_INLINE void window_dw(const int full, const int rows, const int columns, vf *acc, vf g, const window_row *d,
                             ptrdiff_t at, tap_range v, vm m)
{
    UNROLL
    for (int i = 0; i < 3; i++) {
        UNROLL
        for (int j = 0; j < 3; j++) {
            if (window_inside(rows, d->u, i) && window_inside(columns, v, j)) {
                acc[3 * i + j] = vf_fma(g, window_load(full, m, d->x[i] + at + d->column[j]), acc[3 * i + j]);
            }
        }
    }
}

ALWAYS_INLINE void window_dw_edge(const int full, const int rows, vf *acc, vf g, const window_row *d, int32_t j, vm m,
                                  const conv2d_shape *s)
{
    const tap_range v = window_taps(j * s->sw - s->pl, s->dw, s->w);
    switch (window_known(v)) {
    case TAPS_LATER: window_dw(full, rows, TAPS_LATER, acc, g, d, j * d->step, v, m); break;
    case TAPS_EARLIER: window_dw(full, rows, TAPS_EARLIER, acc, g, d, j * d->step, v, m); break;
    default: window_dw(full, rows, TAPS_ANY, acc, g, d, j * d->step, v, m); break;
    }
}

ALWAYS_INLINE void window_dw_pixels(const int full, const int rows, vf *acc, const float *g, const window_row *row,
                                    vm m, const conv2d_shape *s)
{
    const window_row d = *row;
    int32_t j = 0;
    for (int edge = 0; edge < 2; edge++) {
        for (; j < (edge ? s->ow : d.whole.first); j++) {
            window_dw_edge(full, rows, acc, window_load(full, m, g + j * s->c), &d, j, m, s);
        }
        for (; !edge && j < d.whole.last; j++) {
            window_dw(full, rows, TAPS_ALL, acc, window_load(full, m, g + j * s->c), &d, j * d.step, d.u, m);
        }
    }
}

ALWAYS_INLINE void window_dw_channels(const int full, float *dw, const float *g, const float *x, vm m,
                                      const conv2d_shape *s)
{
    const tap_range whole = whole_columns(s);
    vf acc[9];
    UNROLL
    for (int k = 0; k < 9; k++) {
        acc[k] = window_load(full, m, dw + k * s->c);
    }
    for (int32_t i = 0; i < s->oh; i++, g += s->ow * s->c) {
        const window_row d = window_row_at(x, i, whole, s);
        if (d.u.first == 0 && d.u.last == 3) {
            window_dw_pixels(full, TAPS_ALL, acc, g, &d, m, s);
        } else {
            window_dw_pixels(full, TAPS_ANY, acc, g, &d, m, s);
        }
    }
    UNROLL
    for (int k = 0; k < 9; k++) {
        window_store(full, dw + k * s->c, m, acc[k]);
    }
}

ALWAYS_INLINE void windows_dw_f32(float *dw, const float *g, const float *x, const conv2d_shape *shape)
{
    const conv2d_shape copy = *shape, *s = &copy;
    clear_f32(dw, 9 * s->c);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c, g += s->oh * s->ow * s->c) {
        int32_t o = 0;
        for (; o + LANES <= s->c; o += LANES) {
            window_dw_channels(1, dw + o, g + o, x + o, lanes(LANES), s);
        }
        if (o < s->c) {
            window_dw_channels(0, dw + o, g + o, x + o, lanes(s->c - o), s);
        }
    }
}

#endif
