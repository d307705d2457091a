/* The definition of every primitive, in plain C. Twins for particular machines must equal these. */
#ifndef INSITU_ISA_SCALAR_H
#define INSITU_ISA_SCALAR_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/pointwise/quants.h"
#include "isa/fma.h"
#include "numbers/fixed.h"
#include "numbers/requant.h"

/* sum of a[i] b[i] */
static inline float scalar_dot_f32(const float *a, const float *b, int32_t n)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static inline int32_t scalar_dot_s16s8(const int16_t *a, const int8_t *b, int32_t n)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static inline float scalar_sum_f32(const float *x, int32_t n)
{
    float sum = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

/* y += a x, each rounded once; with a = 1 the product is exact, and a plain addition gives the same bits for less */
static inline void scalar_axpy_f32(float *y, const float *x, float a, int32_t n)
{
    if (a != 1.0f) {
        fma_row_f32(y, a, x, n);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        y[i] += x[i];
    }
}

/* y += a (x - zero) */
static inline void scalar_axpy_s8(int32_t *y, const int8_t *x, int32_t zero, int32_t a, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] += a * (x[i] - zero);
    }
}

/* y = max(y, x) */
static inline void scalar_max_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = x[i] > y[i] ? x[i] : y[i];
    }
}

static inline void scalar_max_s8(int8_t *y, const int8_t *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = x[i] > y[i] ? x[i] : y[i];
    }
}

/* y = x - zero */
static inline void scalar_centre_s8(int16_t *y, const int8_t *x, int32_t zero, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = (int16_t)(x[i] - zero);
    }
}

/* y = x + 128: signed to unsigned, for an unsigned by signed multiplier */
static inline void scalar_raise_s8(uint8_t *y, const int8_t *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = (uint8_t)(x[i] + 128);
    }
}

/* y[i] = requantised acc[i], of channel i */
static inline void scalar_requant_row(int8_t *y, const int32_t *acc, const requant *q, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = requant_at(acc[i], i, q);
    }
}

/* rescale(rescale((a - a_zero) 2^20) + sign rescale((b - b_zero) 2^20)) + y_zero, before the clamp: see sum_litert_s8 */
static inline int32_t sum_litert_value(int32_t a, int32_t b, const sum_litert_quant *q)
{
    const int32_t ta = fixed_shift(fixed_mul((a - q->a_zero) * (1 << 20), q->ma), -q->a_shift);
    const int32_t tb = fixed_shift(fixed_mul((b - q->b_zero) * (1 << 20), q->mb), -q->b_shift);
    const int32_t sum = fixed_shift(fixed_mul(ta + q->sign * tb, q->my), -q->y_shift);
    return sum + q->y_zero;
}

static inline int8_t sum_litert_at(int32_t a, int32_t b, const sum_litert_quant *q)
{
    return fixed_clamp(sum_litert_value(a, b, q), q->lo, q->hi);
}

static inline void scalar_sum_litert_run(int8_t *y, const int8_t *a, const int8_t *b, int32_t n,
                                         const sum_litert_quant *q)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = sum_litert_at(a[i], b[i], q);
    }
}

/* one row of depthwise outputs: output p, tap (u,v) reads channel o of pixel q = p*stride + v*dilation - left of
 * rows[u], at rows[u] + q*c + o, or of `pad` where q is not in 0..width-1 or rows[u] is null. Weights are w[u,v,o]. */
typedef struct {
    int32_t pixels, c, kh, kw, stride, dilation, left, width;
} depthwise_row;

/* y[p,o] = requantised (b[o] + sum over taps of w[tap,o] x[tap,o]) */
static inline void scalar_depthwise_row_s8(int8_t *y, uint8_t *mask, const int8_t *const *rows, const int8_t *pad, const int8_t *w,
                                           const int32_t *b, const depthwise_row *t, const requant *q)
{
    for (int32_t p = 0; p < t->pixels; p++) {
        for (int32_t o = 0; o < t->c; o++) {
            uint32_t acc = (uint32_t)b[o];
            const int8_t *f = w + o;
            for (int32_t u = 0; u < t->kh; u++) {
                for (int32_t v = 0; v < t->kw; v++, f += t->c) {
                    const int32_t at = p * t->stride + v * t->dilation - t->left;
                    const int inside = rows[u] && at >= 0 && at < t->width;
                    acc += (uint32_t)((inside ? rows[u][at * t->c + o] : pad[o]) * *f);
                }
            }
            *y++ = requant_masked(mask_row(mask, p, t->c), (int32_t)acc, o, q);
        }
    }
}

#endif
