/* taps.h on vectors of channels: taps anywhere, and gradients of taps. Those in rows of three are in taps_grid.h. */
#ifndef INSITU_ISA_LANES_TAPS_H
#define INSITU_ISA_LANES_TAPS_H

#include "isa/lanes/taps_grid.h"
#include "isa/lanes/taps_parts.h"

/* P pixels of row r from p on, all of whose taps are inside, or one pixel, which is checked tap by tap */
ALWAYS_INLINE void taps_block(const int wide, const int full, const int P, const int whole, float *y, vf start,
                              const tap *taps, int32_t count, const matrix_end *end, int32_t r, int32_t p, int32_t o,
                              vm m, const tap_row *t)
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
        const float *x = (const float *)taps[k].x + (ptrdiff_t)r * t->x_next + (p * t->step + taps[k].at) * t->c + o;
        const vf f = taps_weight(wide, full, taps + k, o, m);
        UNROLL
        for (int i = 0; i < P; i++) {
            acc[i] = vf_fma(taps_load(full, m, x + i * next), f, acc[i]);
        }
    }
    UNROLL
    for (int i = 0; i < P; i++) {
        const ptrdiff_t at = (ptrdiff_t)r * t->y_next + (p + i) * y_next + o;
        taps_store(full, y + at, m, wide == TAPS_END ? taps_ended(full, m, acc[i], end, at) : acc[i]);
    }
}

/* the channels o..o + LANES - 1 of row r */
ALWAYS_INLINE void taps_channels(const int wide, const int full, float *y, const float *start, const tap *taps,
                                 int32_t count, const matrix_end *end, int32_t r, int32_t o, tap_range whole,
                                 const tap_row *t)
{
    const vm m = lanes(t->c - o);
    const vf first = start ? taps_load(full, m, start + o) : vf_zero();
    int32_t p = 0;
    for (; p < whole.first; p++) {
        taps_block(wide, full, 1, 0, y, first, taps, count, end, r, p, o, m, t);
    }
    for (; p + 8 <= whole.last; p += 8) {
        taps_block(wide, full, 8, 1, y, first, taps, count, end, r, p, o, m, t);
    }
    for (; p + 4 <= whole.last; p += 4) {
        taps_block(wide, full, 4, 1, y, first, taps, count, end, r, p, o, m, t);
    }
    for (; p + 2 <= whole.last; p += 2) {
        taps_block(wide, full, 2, 1, y, first, taps, count, end, r, p, o, m, t);
    }
    for (; p < t->pixels; p++) {
        taps_block(wide, full, 1, 0, y, first, taps, count, end, r, p, o, m, t);
    }
}

ALWAYS_INLINE void taps_some(const int wide, const int full, float *y, const float *start, const tap *taps,
                             int32_t count, const tap_grid *d, const matrix_end *end, int32_t o, tap_range whole,
                             const tap_row *t)
{
    if (d->rows == 3) {
        grid_channels(wide, full, 3, y, start, taps, d, end, o, whole, t);
    } else if (d->rows == 2) {
        grid_channels(wide, full, 2, y, start, taps, d, end, o, whole, t);
    } else {
        for (int32_t r = 0; r < t->rows; r++) {
            taps_channels(wide, full, y, start, taps, count, end, r, o, whole, t);
        }
    }
}

ALWAYS_INLINE void taps_any(const int wide, float *y, const float *start, const tap *taps, int32_t count,
                            const matrix_end *end, const tap_row *row)
{
    const tap_row copy = *row, *t = &copy;
    const tap_range whole = taps_whole(taps, count, t);
    const tap_grid d = taps_grid(taps, count);
    int32_t o = 0;
    if (wide == 1 && grid_slides(&d, taps, whole, t)) {
        for (; o + SLIDE_VECTORS * LANES <= t->c; o += SLIDE_VECTORS * LANES) {
            grid_columns(y, start, taps, &d, o, whole, t);
        }
    }
    for (; o + LANES <= t->c; o += LANES) {
        taps_some(wide, 1, y, start, taps, count, &d, end, o, whole, t);
    }
    if (o < t->c) {
        taps_some(wide, 0, y, start, taps, count, &d, end, o, whole, t);
    }
}

ALWAYS_INLINE vf taps_input(const int wide, const int full, const tap *k, ptrdiff_t at, int32_t zero, vm m)
{
    return wide ? taps_load(full, m, (const float *)k->x + at) : vf_load_s8(m, (const int8_t *)k->x + at, zero);
}

/* the gradients of T taps in registers along a row */
ALWAYS_INLINE void taps_dw_block(const int wide, const int full, const int T, const tap *taps, const float *g,
                                 int32_t zero, int32_t o, vm m, tap_range whole, const tap_row *t)
{
    const ptrdiff_t next = (ptrdiff_t)t->step * t->c, g_next = (ptrdiff_t)t->y_step * t->c;
    vf acc[9];
    UNROLL
    for (int k = 0; k < T; k++) {
        acc[k] = taps_load(full, m, (const float *)taps[k].w + o);
    }
    for (int32_t p = 0; p < t->pixels; p++) {
        const vf gp = taps_load(full, m, g + p * g_next + o);
        if (p >= whole.first && p < whole.last) {
            UNROLL
            for (int k = 0; k < T; k++) {
                const ptrdiff_t at = p * next + (ptrdiff_t)taps[k].at * t->c + o;
                acc[k] = vf_fma(gp, taps_input(wide, full, taps + k, at, zero, m), acc[k]);
            }
            continue;
        }
        UNROLL
        for (int k = 0; k < T; k++) {
            if (tap_inside(taps + k, p, t)) {
                const ptrdiff_t at = p * next + (ptrdiff_t)taps[k].at * t->c + o;
                acc[k] = vf_fma(gp, taps_input(wide, full, taps + k, at, zero, m), acc[k]);
            }
        }
    }
    UNROLL
    for (int k = 0; k < T; k++) {
        taps_store(full, (float *)taps[k].w + o, m, acc[k]);
    }
}

ALWAYS_INLINE void taps_dw_channels(const int wide, const int full, const tap *taps, int32_t count, const float *g,
                                    int32_t zero, int32_t o, tap_range whole, const tap_row *t)
{
    const vm m = lanes(t->c - o);
    int32_t k = 0;
    for (; k + 9 <= count; k += 9) {
        taps_dw_block(wide, full, 9, taps + k, g, zero, o, m, whole, t);
    }
    for (; k + 6 <= count; k += 6) {
        taps_dw_block(wide, full, 6, taps + k, g, zero, o, m, whole, t);
    }
    for (; k + 3 <= count; k += 3) {
        taps_dw_block(wide, full, 3, taps + k, g, zero, o, m, whole, t);
    }
    for (; k < count; k++) {
        taps_dw_block(wide, full, 1, taps + k, g, zero, o, m, whole, t);
    }
}

ALWAYS_INLINE void taps_dw_any(const int wide, const tap *taps, int32_t count, const float *g, int32_t zero,
                               const tap_row *row)
{
    const tap_row copy = *row, *t = &copy;
    const tap_range whole = taps_whole(taps, count, t);
    int32_t o = 0;
    for (; o + LANES <= t->c; o += LANES) {
        taps_dw_channels(wide, 1, taps, count, g, zero, o, whole, t);
    }
    if (o < t->c) {
        taps_dw_channels(wide, 0, taps, count, g, zero, o, whole, t);
    }
}

#endif
