/* taps.h on vectors of channels. */
#ifndef INSITU_ISA_LANES_TAPS_H
#define INSITU_ISA_LANES_TAPS_H

#include "isa/inline.h"
#include "isa/lanes.h"

/* the pixels first..last-1 whose taps are all inside */
ALWAYS_INLINE tap_range taps_whole(const tap *taps, int32_t count, const tap_row *t)
{
    int32_t low = 0, high = 0;
    for (int32_t k = 0; k < count; k++) {
        low = taps[k].at < low ? taps[k].at : low;
        high = taps[k].at > high ? taps[k].at : high;
    }
    const int32_t first = (-low + t->step - 1) / t->step;
    const int32_t last = t->width > high ? (t->width - 1 - high) / t->step + 1 : 0;
    const int32_t end = last < t->pixels ? last : t->pixels;
    const tap_range found = {first < end ? first : end, end};
    return found;
}

ALWAYS_INLINE vf taps_weight(const int wide, const tap *k, int32_t o, vm m)
{
    return wide ? vf_load(m, (const float *)k->w + o) : vf_load_s8(m, (const int8_t *)k->w + o, 0);
}

/* P pixels from p on, all of whose taps are inside, or one pixel, which is checked tap by tap */
ALWAYS_INLINE void taps_block(const int wide, const int P, const int whole, float *y, vf start, const tap *taps,
                              int32_t count, int32_t p, int32_t o, vm m, const tap_row *t)
{
    const ptrdiff_t next = (ptrdiff_t)t->step * t->c, y_next = (ptrdiff_t)t->y_step * t->c;
    vf acc[8];
    UNROLL
    for (int i = 0; i < P; i++) {
        acc[i] = start;
    }
    for (int32_t k = 0; k < count; k++) {
        if (!whole && !tap_inside(taps + k, p, t)) {
            continue;
        }
        const float *x = (const float *)taps[k].x + ((ptrdiff_t)p * t->step + taps[k].at) * t->c + o;
        const vf f = taps_weight(wide, taps + k, o, m);
        UNROLL
        for (int i = 0; i < P; i++) {
            acc[i] = vf_fma(vf_load(m, x + i * next), f, acc[i]);
        }
    }
    UNROLL
    for (int i = 0; i < P; i++) {
        vf_store(y + (p + i) * y_next + o, m, acc[i]);
    }
}

ALWAYS_INLINE void taps_any(const int wide, float *y, const float *start, const tap *taps, int32_t count,
                            const tap_row *row)
{
    const tap_row copy = *row, *t = &copy;
    const tap_range whole = taps_whole(taps, count, t);
    for (int32_t o = 0; o < t->c; o += LANES) {
        const vm m = lanes(t->c - o);
        const vf first = start ? vf_load(m, start + o) : vf_zero();
        int32_t p = 0;
        for (; p < whole.first; p++) {
            taps_block(wide, 1, 0, y, first, taps, count, p, o, m, t);
        }
        for (; p + 8 <= whole.last; p += 8) {
            taps_block(wide, 8, 1, y, first, taps, count, p, o, m, t);
        }
        for (; p + 4 <= whole.last; p += 4) {
            taps_block(wide, 4, 1, y, first, taps, count, p, o, m, t);
        }
        for (; p + 2 <= whole.last; p += 2) {
            taps_block(wide, 2, 1, y, first, taps, count, p, o, m, t);
        }
        for (; p < t->pixels; p++) {
            taps_block(wide, 1, 0, y, first, taps, count, p, o, m, t);
        }
    }
}

ALWAYS_INLINE vf taps_input(const int wide, const tap *k, ptrdiff_t at, int32_t zero, vm m)
{
    return wide ? vf_load(m, (const float *)k->x + at) : vf_load_s8(m, (const int8_t *)k->x + at, zero);
}

/* the gradients of T taps in registers along a row */
ALWAYS_INLINE void taps_dw_block(const int wide, const int T, const tap *taps, const float *g, int32_t zero, int32_t o,
                                 vm m, tap_range whole, const tap_row *t)
{
    const ptrdiff_t next = (ptrdiff_t)t->step * t->c, g_next = (ptrdiff_t)t->y_step * t->c;
    vf acc[9];
    UNROLL
    for (int k = 0; k < T; k++) {
        acc[k] = vf_load(m, (const float *)taps[k].w + o);
    }
    for (int32_t p = 0; p < t->pixels; p++) {
        const vf gp = vf_load(m, g + p * g_next + o);
        if (p >= whole.first && p < whole.last) {
            UNROLL
            for (int k = 0; k < T; k++) {
                acc[k] = vf_fma(gp, taps_input(wide, taps + k, p * next + (ptrdiff_t)taps[k].at * t->c + o, zero, m), acc[k]);
            }
            continue;
        }
        UNROLL
        for (int k = 0; k < T; k++) {
            if (tap_inside(taps + k, p, t)) {
                acc[k] = vf_fma(gp, taps_input(wide, taps + k, p * next + (ptrdiff_t)taps[k].at * t->c + o, zero, m), acc[k]);
            }
        }
    }
    UNROLL
    for (int k = 0; k < T; k++) {
        vf_store((float *)taps[k].w + o, m, acc[k]);
    }
}

ALWAYS_INLINE void taps_dw_any(const int wide, const tap *taps, int32_t count, const float *g, int32_t zero,
                               const tap_row *row)
{
    const tap_row copy = *row, *t = &copy;
    const tap_range whole = taps_whole(taps, count, t);
    for (int32_t o = 0; o < t->c; o += LANES) {
        const vm m = lanes(t->c - o);
        int32_t k = 0;
        for (; k + 9 <= count; k += 9) {
            taps_dw_block(wide, 9, taps + k, g, zero, o, m, whole, t);
        }
        for (; k + 6 <= count; k += 6) {
            taps_dw_block(wide, 6, taps + k, g, zero, o, m, whole, t);
        }
        for (; k + 3 <= count; k += 3) {
            taps_dw_block(wide, 3, taps + k, g, zero, o, m, whole, t);
        }
        for (; k < count; k++) {
            taps_dw_block(wide, 1, taps + k, g, zero, o, m, whole, t);
        }
    }
}

#endif
