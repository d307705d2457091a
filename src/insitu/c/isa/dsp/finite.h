/* finite.h for a Cortex-M with floating point. */
#ifndef INSITU_ISA_DSP_FINITE_H
#define INSITU_ISA_DSP_FINITE_H

#include "isa/fma.h"

/* zero times anything finite is zero: eight loads in one instruction, and one more per number */
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

#endif
