/* quick.h for Helium: four results at a time. */
#ifndef INSITU_ISA_HELIUM_QUICK_H
#define INSITU_ISA_HELIUM_QUICK_H

#include "isa/helium/vectors.h"

/* before the clamp: see quick_value */
ALWAYS_INLINE int32x4_t helium_value(int32x4_t acc, const quick_requant *q)
{
    return vshlq_r_s32(vaddq_n_s32(vmulhq_s32(acc, vdupq_n_s32(q->m)), q->add), -q->shift);
}

APART void helium_store_plain(channel_place to, const int32_t *acc, int32_t n, const quick_requant *way)
{
    const uint32x4_t places = helium_steps(to.y_row);
    for (; n > 0; n -= HELIUM_WORDS, acc += HELIUM_WORDS, to.y += HELIUM_WORDS * to.y_row) {
        const mve_pred16_t p = vctp32q((uint32_t)n);
        vstrbq_scatter_offset_p_s32(to.y, places, helium_within(helium_value(vldrwq_z_s32(acc, p), way)), p);
    }
}

APART void helium_store_masked(channel_place to, const int32_t *acc, int32_t n, const quick_requant *way)
{
    const uint32x4_t places = helium_steps(to.y_row), bytes = helium_steps(to.mask_row);
    const uint32x4_t bit = vdupq_n_u32(1u << (to.channel & 7));
    uint8_t *mask = to.mask + (to.channel >> 3);
    for (; n > 0; n -= HELIUM_WORDS, acc += HELIUM_WORDS) {
        const mve_pred16_t p = vctp32q((uint32_t)n);
        const int32x4_t v = helium_value(vldrwq_z_s32(acc, p), way), within = helium_within(v);
        const uint32x4_t old = vldrbq_gather_offset_z_u32(mask, bytes, p);
        vstrbq_scatter_offset_p_s32(to.y, places, within, p);
        vstrbq_scatter_offset_p_u32(mask, bytes, vorrq_m_u32(old, old, bit, vcmpeqq_s32(v, within)), p);
        to.y += HELIUM_WORDS * to.y_row;
        mask += HELIUM_WORDS * to.mask_row;
    }
}
/* before the clamp: see requant_litert. A negative number is decreased by one before it is rounded half up, so that
 * ties go away from zero; sums that would overflow end at the clamp anyway */
ALWAYS_INLINE int32x4_t helium_litert(int32x4_t acc, int32_t m, int32_t shift, int32_t zero)
{
    const int32_t right = shift > 0 ? 0 : -shift;
    const int32x4_t x = vshlq_r_s32(acc, shift > 0 ? shift : 0), high = vqrdmulhq_n_s32(x, m);
    const int32x4_t less = vshrq_n_s32(vandq_s32(high, vdupq_n_s32(-right)), 31);
    return vqaddq_n_s32(vrshlq_n_s32(vqaddq_s32(high, less), -right), zero);
}

APART void helium_store_litert(const channel_place *place, const int32_t *acc, int32_t n, const requant *q)
{
    const channel_place to = *place;
    const int32_t at = to.channel * q->step, m = q->m[at], shift = q->shift[at], zero = q->y_zero;
    const uint32x4_t places = helium_steps(to.y_row), bytes = helium_steps(to.mask_row);
    const uint32x4_t bit = vdupq_n_u32(1u << (to.channel & 7));
    const int32x4_t lo = vdupq_n_s32(q->lo), hi = vdupq_n_s32(q->hi);
    uint8_t *mask = to.mask ? to.mask + (to.channel >> 3) : NULL;
    for (int8_t *y = to.y; n > 0; n -= HELIUM_WORDS, acc += HELIUM_WORDS, y += HELIUM_WORDS * to.y_row) {
        const mve_pred16_t p = vctp32q((uint32_t)n);
        const int32x4_t v = helium_litert(vldrwq_z_s32(acc, p), m, shift, zero), within = vminq_s32(vmaxq_s32(v, lo), hi);
        vstrbq_scatter_offset_p_s32(y, places, within, p);
        if (mask) {
            const uint32x4_t old = vldrbq_gather_offset_z_u32(mask, bytes, p);
            vstrbq_scatter_offset_p_u32(mask, bytes, vorrq_m_u32(old, old, bit, vcmpeqq_s32(v, within)), p);
            mask += HELIUM_WORDS * to.mask_row;
        }
    }
}

static inline void helium_store_any(const channel_place *to, const int32_t *acc, int32_t n, const requant *q)
{
    if (q->rounding == REQUANT_LITERT) {
        helium_store_litert(to, acc, n, q);
    } else {
        scalar_store_any(to, acc, n, q);
    }
}
#define store_any helium_store_any
#define store_plain helium_store_plain
#define store_masked helium_store_masked

#endif
