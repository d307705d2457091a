/* sum.h for Helium: four elements at a time. */
#ifndef INSITU_ISA_HELIUM_SUM_H
#define INSITU_ISA_HELIUM_SUM_H

#include "isa/helium/vectors.h"

/* before the clamp: see sum_value */
ALWAYS_INLINE int32x4_t helium_sum_value(int32x4_t a, int32x4_t b, const sum_quant *q)
{
    int32x4_t acc = vmulq_n_s32(vsubq_n_s32(a, q->a_zero), q->ma);
    acc = vaddq_n_s32(vmlaq_n_s32(acc, vsubq_n_s32(b, q->b_zero), q->mb), 1 << (q->shift - 1));
    return vaddq_n_s32(vshlq_r_s32(acc, -q->shift), q->y_zero);
}

ALWAYS_INLINE int32x4_t helium_sum_within(int32x4_t v, const sum_quant *q)
{
    return vminq_s32(vmaxq_s32(v, vdupq_n_s32(q->lo)), vdupq_n_s32(q->hi));
}

APART void helium_sum_run(int8_t *y, const int8_t *a, const int8_t *b, int32_t n, const sum_quant *q)
{
    for (; n > 0; n -= HELIUM_WORDS, y += HELIUM_WORDS, a += HELIUM_WORDS, b += HELIUM_WORDS) {
        const mve_pred16_t p = vctp32q((uint32_t)n);
        const int32x4_t v = helium_sum_value(vldrbq_z_s32(a, p), vldrbq_z_s32(b, p), q);
        vstrbq_p_s32(y, helium_sum_within(v, q), p);
    }
}

/* four elements; whether they were not clamped as bits from `at` on */
ALWAYS_INLINE uint32_t helium_sum_bits(int8_t *y, const int8_t *a, const int8_t *b, int32_t n, uint32_t at,
                                       const sum_quant *q)
{
    const mve_pred16_t p = vctp32q((uint32_t)n);
    const int32x4_t v = helium_sum_value(vldrbq_z_s32(a, p), vldrbq_z_s32(b, p), q), within = helium_sum_within(v, q);
    const uint32x4_t bits = vshlq_u32(vdupq_n_u32(1u << at), vreinterpretq_s32_u32(vidupq_n_u32(0, 1)));
    vstrbq_p_s32(y, within, p);
    return vaddvq_p_u32(bits, vcmpeqq_m_s32(v, within, p));
}

APART void helium_sum_masked(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, int32_t n, const sum_quant *q)
{
    for (; n > 0; n -= 8, y += 8, a += 8, b += 8) {
        uint32_t bits = helium_sum_bits(y, a, b, n, 0, q);
        if (n > HELIUM_WORDS) {
            bits |= helium_sum_bits(y + HELIUM_WORDS, a + HELIUM_WORDS, b + HELIUM_WORDS, n - HELIUM_WORDS, 4, q);
        }
        *mask++ = (uint8_t)bits;
    }
}
#define sum_run helium_sum_run
#define sum_masked helium_sum_masked

#endif
