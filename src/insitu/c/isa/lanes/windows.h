/* windows.h on vectors of channels: gradients stay in registers over all pixels of an image. */
#ifndef INSITU_ISA_LANES_WINDOWS_H
#define INSITU_ISA_LANES_WINDOWS_H

#include "isa/inline.h"
#include "isa/lanes.h"

enum { WINDOW_FLOATS = 6144 }; /* inputs of some rows of outputs, all channels */

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

/* do rows of windows have at most one at each end that is not inside, and does that lack one column of taps? */
ALWAYS_INLINE int window_ends_usual(tap_range whole, const conv2d_shape *s)
{
    const tap_range left = window_taps(-s->pl, s->dw, s->w), right = window_taps((s->ow - 1) * s->sw - s->pl, s->dw, s->w);
    const int begins = whole.first == 0 || (whole.first == 1 && left.first + 4 * left.last == TAPS_LATER);
    const int ends = whole.last == s->ow || (whole.last == s->ow - 1 && right.first + 4 * right.last == TAPS_EARLIER);
    return whole.first < whole.last && begins && ends;
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

/* a row of windows with the usual ends */
ALWAYS_INLINE void window_dw_usual(const int full, const int rows, vf *acc, const float *g, const window_row *d, vm m,
                                   const conv2d_shape *s)
{
    ptrdiff_t at = 0;
    int32_t j = d->whole.first;
    if (j) {
        window_dw(full, rows, TAPS_LATER, acc, window_load(full, m, g), d, at, d->u, m);
        at += d->step;
        g += s->c;
    }
    for (; j < d->whole.last; j++, at += d->step, g += s->c) {
        window_dw(full, rows, TAPS_ALL, acc, window_load(full, m, g), d, at, d->u, m);
    }
    if (j < s->ow) {
        window_dw(full, rows, TAPS_EARLIER, acc, window_load(full, m, g), d, at, d->u, m);
    }
}

ALWAYS_INLINE void window_dw_any(const int full, vf *acc, const float *g, const window_row *d, vm m, const conv2d_shape *s)
{
    for (int32_t j = 0; j < s->ow; j++, g += s->c) {
        const tap_range v = window_taps(j * s->sw - s->pl, s->dw, s->w);
        window_dw(full, TAPS_ANY, TAPS_ANY, acc, window_load(full, m, g), d, j * d->step, v, m);
    }
}

/* some channels of the rows of outputs `band` */
ALWAYS_INLINE void window_dw_channels(const int full, float *dw, const float *g, const float *x, tap_range band, vm m,
                                      const conv2d_shape *s)
{
    const tap_range whole = whole_columns(s);
    const int usual = window_ends_usual(whole, s);
    vf acc[9];
    UNROLL
    for (int k = 0; k < 9; k++) {
        acc[k] = window_load(full, m, dw + k * s->c);
    }
    g += (ptrdiff_t)band.first * s->ow * s->c;
    for (int32_t i = band.first; i < band.last; i++, g += s->ow * s->c) {
        const window_row d = window_row_at(x, i, whole, s);
        if (!usual) {
            window_dw_any(full, acc, g, &d, m, s);
        } else if (d.u.first == 0 && d.u.last == 3) {
            window_dw_usual(full, TAPS_ALL, acc, g, &d, m, s);
        } else {
            window_dw_usual(full, TAPS_ANY, acc, g, &d, m, s);
        }
    }
    UNROLL
    for (int k = 0; k < 9; k++) {
        window_store(full, dw + k * s->c, m, acc[k]);
    }
}

/* all channels of some rows of outputs: their inputs stay in the first-level cache */
ALWAYS_INLINE void window_dw_band(float *dw, const float *g, const float *x, tap_range band, const conv2d_shape *s)
{
    int32_t o = 0;
    for (; o + LANES <= s->c; o += LANES) {
        window_dw_channels(1, dw + o, g + o, x + o, band, lanes(LANES), s);
    }
    if (o < s->c) {
        window_dw_channels(0, dw + o, g + o, x + o, band, lanes(s->c - o), s);
    }
}

ALWAYS_INLINE void windows_dw_f32(float *dw, const float *g, const float *x, const conv2d_shape *shape)
{
    const conv2d_shape copy = *shape, *s = &copy;
    const int32_t floats = s->sh * s->w * s->c, most = floats < WINDOW_FLOATS ? WINDOW_FLOATS / floats : 1;
    const int32_t bands = (s->oh + most - 1) / most, rows = bands ? (s->oh + bands - 1) / bands : 1; /* of equal height */
    clear_f32(dw, 9 * s->c);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c, g += s->oh * s->ow * s->c) {
        for (int32_t i = 0; i < s->oh; i += rows) {
            const tap_range band = {i, i + rows < s->oh ? i + rows : s->oh};
            window_dw_band(dw, g, x, band, s);
        }
    }
}

#endif
