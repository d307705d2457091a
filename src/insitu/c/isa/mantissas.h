/* Four neighbouring channels of mantissas times four bytes of weights, over taps that lie apart.
 *
 *   mantissas_times4   sum[k] = sum over t of g[t * g_step + k] w[t * w_step + k], k < 4; one-byte mantissas times 256
 *
 * Steps count elements. `bytes` is that of a mantissa, a literal.
 */
#ifndef INSITU_ISA_MANTISSAS_H
#define INSITU_ISA_MANTISSAS_H

#include "block.h"

ALWAYS_INLINE void scalar_mantissas_times4(int32_t *sum, const void *g, int32_t at, int32_t g_step, const int8_t *w,
                                           int32_t w_step, int32_t taps, int32_t bytes)
{
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (int32_t t = 0; t < taps; t++, at += g_step, w += w_step) {
        a += block_get(g, at, bytes) * w[0];
        b += block_get(g, at + 1, bytes) * w[1];
        c += block_get(g, at + 2, bytes) * w[2];
        d += block_get(g, at + 3, bytes) * w[3];
    }
    sum[0] = a, sum[1] = b, sum[2] = c, sum[3] = d;
}

#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && !defined(INSITU_SCALAR)
#include "isa/arm_dsp.h"

static inline int32_t multiply_low(uint32_t x, uint32_t w, int32_t acc)
{
    int32_t y;
    __asm__("smlabb %0, %1, %2, %3" : "=r"(y) : "r"(x), "r"(w), "r"(acc));
    return y;
}

static inline int32_t multiply_high(uint32_t x, uint32_t w, int32_t acc)
{
    int32_t y;
    __asm__("smlatt %0, %1, %2, %3" : "=r"(y) : "r"(x), "r"(w), "r"(acc));
    return y;
}

/* two-byte mantissas lie as pairs 0,1 and 2,3; widened weights and one-byte mantissas as 0,2 and 1,3 */
ALWAYS_INLINE void arm_mantissas_times4(int32_t *sum, const void *g, int32_t at, int32_t g_step, const int8_t *w,
                                        int32_t w_step, int32_t taps, int32_t bytes)
{
    const int8_t *from = (const int8_t *)g + at * bytes;
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (int32_t t = 0; t < taps; t++, from += g_step * bytes, w += w_step) {
        const uint32_t four = word_at(w), even = widen_even(0, four), odd = widen_odd(0, four);
        const uint32_t x = word_at(from);
        if (bytes == 2) {
            const uint32_t y = word_at(from + 4);
            a = multiply_low(x, even, a);
            b = multiply_high_low(x, odd, b);
            c = multiply_low_high(y, even, c);
            d = multiply_high(y, odd, d);
        } else {
            const uint32_t x_even = widen_even(0, x), x_odd = widen_odd(0, x);
            a = multiply_low(x_even, even, a);
            b = multiply_low(x_odd, odd, b);
            c = multiply_high(x_even, even, c);
            d = multiply_high(x_odd, odd, d);
        }
    }
    const int32_t up = bytes == 2 ? 1 : 256;
    sum[0] = a * up, sum[1] = b * up, sum[2] = c * up, sum[3] = d * up;
}
#define mantissas_times4 arm_mantissas_times4
#else
#define mantissas_times4 scalar_mantissas_times4
#endif

#endif
