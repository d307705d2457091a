/* Fused multiply-adds along a row: the primitives of the backward pass.
 *
 *   fma_f32(a, b, c)                   a*b + c, rounded once
 *   fma_row_f32(y, a, x, n)            y[i] = fma(a, x[i], y[i])
 *   fma_row_s8(y, a, x, zero, n)       y[i] = fma(a, x[i] - zero, y[i])
 *   fma_rows_f32(y, a, x, n)           y[i] = fma(a[i], x[i], y[i]);  fma_rows_s8 takes a zero point too
 *
 * Every machine gives the same bits: lanes are independent outputs, so no width changes an order of additions.
 */
#ifndef INSITU_ISA_FMA_H
#define INSITU_ISA_FMA_H

#include <stdint.h>

#include "isa/machine.h"

#if INSITU_HAS_FMA
static inline float fma_f32(float a, float b, float c)
{
#if defined(INSITU_FMA)
    return INSITU_FMA(a, b, c);
#else
    __asm__("vfma.f32 %0, %1, %2" : "+t"(c) : "t"(a), "t"(b));
    return c;
#endif
}
#else
/* Without the instruction: the product is exact in double, and the sum is rounded to odd there, so that the second
 * rounding, to float, knows on which side of a tie the exact result is. */
static inline float fma_f32(float a, float b, float c)
{
    union {
        double d;
        uint64_t u;
    } s;
    const double p = (double)a * (double)b, q = (double)c;
    s.d = p + q;
    const double r = s.d - p, e = (p - (s.d - r)) + (q - r);
    if (e != 0.0 && (s.u & 1u) == 0 && s.d - s.d == 0.0) {
        s.u += ((e > 0.0) == (s.d > 0.0)) ? 1u : (uint64_t)-1;
    }
    return (float)s.d;
}
#endif

static inline void fma_row_f32(float *y, float a, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = fma_f32(a, x[i], y[i]);
    }
}

static inline void fma_row_s8(float *y, float a, const int8_t *x, int32_t zero, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = fma_f32(a, (float)(x[i] - zero), y[i]);
    }
}

static inline void fma_rows_f32(float *y, const float *a, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = fma_f32(a[i], x[i], y[i]);
    }
}

static inline void fma_rows_s8(float *y, const float *a, const int8_t *x, int32_t zero, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = fma_f32(a[i], (float)(x[i] - zero), y[i]);
    }
}

static inline void clear_f32(float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = 0.0f;
    }
}

static inline void scale_f32(float *y, float a, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] *= a;
    }
}

/* y[r,o] = x[r,o] a[o] */
static inline void scale_rows_f32(float *y, const float *x, const float *a, int32_t rows, int32_t n)
{
    for (int32_t r = 0; r < rows; r++, y += n, x += n) {
        for (int32_t o = 0; o < n; o++) {
            y[o] = x[o] * a[o];
        }
    }
}

#endif
