/* finite_row_f32(x, n): are all of them finite? */
#ifndef INSITU_ISA_FINITE_H
#define INSITU_ISA_FINITE_H

#include <stdint.h>

#include "isa/fma.h"

/* In integers, since a core without floating point has to do it, too: adding one to the exponent of an infinity, or of
 * what is not a number, carries into the sign. */
static inline int32_t scalar_finite_row_f32(const float *x, int32_t n)
{
    uint32_t seen = 0;
    for (int32_t i = 0; i < n; i++) {
        union {
            float f;
            uint32_t u;
        } v;
        v.f = x[i];
        seen |= (v.u & 0x7fffffffu) + 0x00800000u;
    }
    return seen >> 31 == 0;
}

#if defined(__arm__) && defined(INSITU_HAS_FMA) && !defined(INSITU_SCALAR)
/* zero times anything finite is zero: eight loads in one instruction, and one more for each */
static inline int32_t arm_finite_row_f32(const float *x, int32_t n)
{
    float a = 0.0f, b = 0.0f;
    for (; n >= 8; n -= 8, x += 8) {
        const float x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3], x4 = x[4], x5 = x[5], x6 = x[6], x7 = x[7];
        a = fma_f32(x0, 0.0f, a);
        b = fma_f32(x1, 0.0f, b);
        a = fma_f32(x2, 0.0f, a);
        b = fma_f32(x3, 0.0f, b);
        a = fma_f32(x4, 0.0f, a);
        b = fma_f32(x5, 0.0f, b);
        a = fma_f32(x6, 0.0f, a);
        b = fma_f32(x7, 0.0f, b);
    }
    return a + b == 0.0f && scalar_finite_row_f32(x, n);
}
#define finite_row_f32 arm_finite_row_f32
#else
#define finite_row_f32 scalar_finite_row_f32
#endif

#endif
