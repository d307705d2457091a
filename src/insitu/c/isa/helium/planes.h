/* planes.h for Helium: a tap of four or eight outputs takes one or two instructions, for any kernel and stride. */
#ifndef INSITU_ISA_HELIUM_PLANES_H
#define INSITU_ISA_HELIUM_PLANES_H

#include "isa/helium/vectors.h"

enum { HELIUM_FAR = 9000 }; /* channels: seven pixels away must be within 16 bits */

/* one channel of a row, eight pixels at a time */
ALWAYS_INLINE void helium_widen_row(int16_t *y, const int8_t *x, int32_t c, uint16x8_t places, int32_t zero, int32_t n)
{
    for (; n > 0; n -= HELIUM_HALVES, y += HELIUM_HALVES, x += HELIUM_HALVES * c) {
        const mve_pred16_t p = vctp16q((uint32_t)n);
        vstrhq_p_s16(y, vsubq_n_s16(vldrbq_gather_offset_z_s16(x, places, p), (int16_t)zero), p);
    }
}

APART void helium_planes_widen(int16_t *y, int32_t plane, const int8_t *x, int32_t c, int32_t channels, int32_t zero,
                               const plane_rows *t)
{
    if (c > HELIUM_FAR) {
        scalar_planes_widen(y, plane, x, c, channels, zero, t);
        return;
    }
    const uint16x8_t places = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)c);
    for (int32_t r = 0; r < t->rows; r++, y += t->y_row, x += t->x_row) {
        for (int32_t p = 0; p < channels; p++) {
            helium_widen_row(y + p * plane, x + p, c, places, zero, t->n);
        }
    }
}
#define planes_widen helium_planes_widen
#define plane_weights scalar_plane_weights
#define plane_row scalar_plane_row
#define plane_prepare scalar_plane_prepare

enum { HELIUM_MOST = 2 }; /* vectors of sums at a time: their taps are read once */

/* four numbers, `step` apart */
ALWAYS_INLINE int32x4_t helium_four(const int16_t *x, uint32x4_t places, const int step)
{
    return step == 1 ? vldrhq_s32(x) : vldrhq_gather_shifted_offset_s32(x, places);
}

/* one tap of some vectors of outputs */
ALWAYS_INLINE void helium_tap(int32x4_t *sums, const int16_t *x, int32_t w, uint32x4_t places, int32_t next,
                              const int step, const int vectors)
{
    UNROLL
    for (int i = 0; i < vectors; i++) {
        sums[i] = vmlaq_n_s32(sums[i], helium_four(x + i * (step == 1 ? HELIUM_WORDS : next), places, step), w);
    }
}

/* some vectors of outputs of a line; the width of the kernel and the stride are known (kw, step) or not (0) */
ALWAYS_INLINE void helium_plane_some(int32_t *acc, const int16_t *x, const int16_t *w, int32_t rows, uint32x4_t places,
                                     const plane_task *t, const int kw, const int step, const int vectors)
{
    int32x4_t sums[HELIUM_MOST];
    const int32_t next = HELIUM_WORDS * t->step, x_row = t->x_row, width = t->kw;
    UNROLL
    for (int i = 0; i < vectors; i++) {
        sums[i] = vdupq_n_s32(t->start);
    }
    for (; rows > 0; rows--, x += x_row, w += kw ? kw : width) {
        if (kw) {
            UNROLL
            for (int v = 0; v < kw; v++) {
                helium_tap(sums, x + v, w[v], places, next, step, vectors);
            }
        } else {
            for (int32_t v = 0; v < width; v++) {
                helium_tap(sums, x + v, w[v], places, next, step, vectors);
            }
        }
    }
    UNROLL
    for (int i = 0; i < vectors; i++) {
        vstrwq_s32(acc + i * HELIUM_WORDS, sums[i]);
    }
}

ALWAYS_INLINE void helium_plane_lines(int32_t *acc, const plane_task *t, const int kw, const int step)
{
    const uint32x4_t places = helium_steps(t->step);
    for (const plane_line *line = t->lines; line < t->lines_end; line++, acc += t->count) {
        const int16_t *x = t->plane + line->x, *w = t->w + line->first * t->kw;
        int32_t j = 0;
        for (; j + HELIUM_WORDS < t->count; j += 2 * HELIUM_WORDS, x += 2 * HELIUM_WORDS * t->step) {
            helium_plane_some(acc + j, x, w, line->rows, places, t, kw, step, 2);
        }
        if (j < t->count) {
            helium_plane_some(acc + j, x, w, line->rows, places, t, kw, step, 1);
        }
    }
}

#define HELIUM_LINES(name, kw, step)                            \
    APART void name(int32_t *acc, const plane_task *t)          \
    {                                                           \
        helium_plane_lines(acc, t, kw, step);                   \
    }
HELIUM_LINES(helium_lines_3_1, 3, 1)
HELIUM_LINES(helium_lines_3, 3, 0)
HELIUM_LINES(helium_lines_5_1, 5, 1)
HELIUM_LINES(helium_lines_7_1, 7, 1)
HELIUM_LINES(helium_lines_any, 0, 0)

static inline void helium_plane_sums(int32_t *acc, const plane_task *t)
{
    if (t->kw == 3) {
        if (t->step == 1) {
            helium_lines_3_1(acc, t);
        } else {
            helium_lines_3(acc, t);
        }
    } else if (t->kw == 5 && t->step == 1) {
        helium_lines_5_1(acc, t);
    } else if (t->kw == 7 && t->step == 1) {
        helium_lines_7_1(acc, t);
    } else {
        helium_lines_any(acc, t);
    }
}


static inline void helium_plane_outputs(const plane_task *t, const channel_place *to, const plane_channels *c,
                                        const requant *q, int32_t *acc)
{
    plane_outputs_by(helium_plane_sums, t, to, c, q, acc);
}
#define plane_outputs helium_plane_outputs

#endif
