/* window_sums.h for Helium: eight products in two instructions, those of even and of odd channels. */
#ifndef INSITU_ISA_HELIUM_WINDOW_SUMS_H
#define INSITU_ISA_HELIUM_WINDOW_SUMS_H

#include "isa/helium/vectors.h"

/* eight channels of a tap */
ALWAYS_INLINE void helium_window_tap(int32x4x2_t *sums, const int8_t *p, const int8_t *w)
{
    const int16x8_t left = vldrhq_s16((const int16_t *)(const void *)p), right = vldrbq_s16(w);
    sums->val[0] = vaddq_s32(sums->val[0], vmullbq_int_s16(left, right));
    sums->val[1] = vaddq_s32(sums->val[1], vmulltq_int_s16(left, right));
}

APART void helium_window_16(int32_t *sums, const window_task *t)
{
    const int32_t p_step = t->p_step, w_step = t->w_step, cols = t->cols;
    const int8_t *p_row = (const int8_t *)t->p, *w_row = t->w;
    int32x4x2_t low = {{vdupq_n_s32(0), vdupq_n_s32(0)}}, high = low;
    for (int32_t i = t->rows; i > 0; i--, p_row += t->p_row, w_row += t->w_row) {
        const int8_t *p = p_row, *w = w_row;
        for (int32_t j = cols; j > 0; j--, p += p_step, w += w_step) {
            helium_window_tap(&low, p, w);
            helium_window_tap(&high, p + 2 * HELIUM_HALVES, w + HELIUM_HALVES);
        }
    }
    vst2q_s32(sums, low);
    vst2q_s32(sums + HELIUM_HALVES, high);
}

ALWAYS_INLINE void helium_window_sums(int32_t *sums, const window_task *t, int32_t n)
{
    if (n < BLOCK_GROUP) {
        scalar_window_sums(sums, t, n);
    } else {
        helium_window_16(sums, t);
    }
}
#define window_sums helium_window_sums

#endif
