/* exp, log, tanh, erf and the like in float, without libm and without branches, so that loops over them vectorise.
 *
 * Polynomials were fitted for least relative error (Lawson's method) in float64. Largest errors over all floats, in
 * units in the last place: exp 1, expm1 2, log 1, tanh 3, erf 2. Only correctly rounded operations are used, in a fixed
 * order: with -ffp-contract=off, every machine gives the same bits.
 */
#ifndef INSITU_MATHF_H
#define INSITU_MATHF_H

#include <stdint.h>

#include "isa/sqrt.h"

typedef union {
    float f;
    uint32_t u;
} insitu_bits;

#define INSITU_ROUND 12582912.0f /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */

static inline float insitu_max(float a, float b)
{
    return a > b ? a : b;
}

static inline float insitu_min(float a, float b)
{
    return a < b ? a : b;
}

/* NaN passes through */
static inline float insitu_clamp(float x, float lo, float hi)
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

static inline float insitu_absf(float x)
{
    insitu_bits v;
    v.f = x;
    v.u &= 0x7fffffffu;
    return v.f;
}

/* |x| with the sign of s */
static inline float insitu_signf(float x, float s)
{
    insitu_bits v, w;
    v.f = x;
    w.f = s;
    v.u = (v.u & 0x7fffffffu) | (w.u & 0x80000000u);
    return v.f;
}

/* 2^n as a float, for n in [-126, 127]; garbage but no trap elsewhere */
static inline float insitu_pow2(int32_t n)
{
    insitu_bits v;
    v.u = (uint32_t)(n + 127) << 23;
    return v.f;
}

/* x = n ln 2 + r with |r| <= ln 2 / 2; returns exp(r) - 1 */
static inline float insitu_exp_part(float x, int32_t *n)
{
    insitu_bits t, magic;
    t.f = x * 1.44269504f + INSITU_ROUND;
    magic.f = INSITU_ROUND;
    const float k = t.f - INSITU_ROUND;
    *n = (int32_t)(t.u - magic.u);
    /* ln 2 in two parts, the first with so few bits that its product with k is exact */
    const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    const float p =
        (((1.381459638e-3f * r + 8.368717091e-3f) * r + 4.166838809e-2f) * r + 1.666652063e-1f) * r + 4.999999345e-1f;
    return r + r * r * p;
}

/* e^x; overflows to infinity above 88.72, goes to zero through the subnormals below -87.3 */
static inline float insitu_expf(float x)
{
    int32_t n;
    const float p = insitu_exp_part(insitu_clamp(x, -104.0f, 89.0f), &n);
    const int32_t half = n >> 1; /* in two steps: 2^n alone may be out of range */
    return (1.0f + p) * insitu_pow2(half) * insitu_pow2(n - half);
}

/* e^x - 1 without cancellation, for x <= 80 (larger x count as 80) */
static inline float insitu_expm1f(float x)
{
    int32_t n;
    const float p = insitu_exp_part(insitu_clamp(x, -30.0f, 80.0f), &n);
    const float scale = insitu_pow2(n);
    return p * scale + (scale - 1.0f);
}

/* log(2^e * m) for m in [sqrt(1/2), sqrt(2)): 2 atanh(f / (2 + f)) with f = m - 1 */
static inline float insitu_log_part(float f, float e)
{
    const float s = f / (2.0f + f), z = s * s, half = 0.5f * f * f;
    const float p = z * (6.6666663e-1f + z * (4.0000972e-1f + z * (2.8498787e-1f + z * 2.4279079e-1f)));
    return e * 0.693138123f + (f - (half - (s * (half + p) + e * 9.05800061e-6f)));
}

/* ln x; -infinity at 0, NaN below */
static inline float insitu_logf(float x)
{
    const float tiny = x < 1.17549435e-38f ? 1.0f : 0.0f; /* subnormals: scale by 2^25 first */
    insitu_bits v;
    v.f = x * (1.0f + tiny * 33554431.0f);
    const int32_t e = (int32_t)(v.u - 0x3f3504f3u) >> 23;
    v.u -= (uint32_t)e << 23;
    const float y = insitu_log_part(v.f - 1.0f, (float)e - 25.0f * tiny);
    /* the edges as masks, because compilers turn conditions into branches: 0 gives -infinity, below is not a
     * number, infinity and not a number themselves */
    insitu_bits in, out;
    in.f = x;
    out.f = y;
    const uint32_t normal = 0u - (uint32_t)(in.u - 1u < 0x7f7fffffu), zero = 0u - (uint32_t)((in.u << 1) == 0u);
    const uint32_t edge = in.u | (zero & 0xff800000u) | ((0u - (in.u >> 31)) & ~zero & 0x7fc00000u);
    out.u = (normal & out.u) | (~normal & edge);
    return out.f;
}

/* ln(1 + x) for x in [0, 1] */
static inline float insitu_log1pf(float x)
{
    const float u = 1.0f + x;
    return insitu_logf(u) + (x - (u - 1.0f)) / u; /* the second term is what rounding 1 + x has lost */
}

static inline float insitu_tanhf(float x)
{
    const float t = insitu_expm1f(2.0f * insitu_min(insitu_absf(x), 10.0f));
    return x == x ? insitu_signf(t / (t + 2.0f), x) : x;
}

static inline float insitu_sigmoidf(float x)
{
    const float e = insitu_expf(-insitu_absf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* below 0.92 an odd polynomial, above 1 - exp of one */
static inline float insitu_erff(float x)
{
    const float t = insitu_min(insitu_absf(x), 4.0f), s = t * t;
    const float p = (((((8.334098508e-5f * s - 8.134160264e-4f) * s + 5.200276707e-3f) * s - 2.685909255e-2f) * s +
                      1.128368995e-1f) * s - 3.761263337e-1f) * s + 1.283791671e-1f;
    const float q = (((((-1.959382603e-4f * t + 3.043226757e-3f) * t - 2.222695520e-2f) * t + 1.039316645e-1f) * t +
                      6.371821753e-1f) * t + 1.127675666f) * t + 1.956665295e-4f;
    const float y = t < 0.92f ? t + t * p : 1.0f - insitu_expf(-q);
    return x == x ? insitu_signf(y, x) : x;
}

/* The sum of n numbers in eight lanes: the order is fixed, and it vectorises. */
static inline float insitu_sumf(const float *x, int32_t n)
{
    float lane[8] = {0.0f};
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int32_t k = 0; k < 8; k++) {
            lane[k] += x[i + k];
        }
    }
    for (; i < n; i++) {
        lane[i & 7] += x[i];
    }
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* The nearest integer, ties up, limited to +-limit. */
static inline int32_t insitu_round(float x, float limit)
{
    const float y = insitu_clamp(x + 0.5f, -limit, limit);
    const int32_t i = (int32_t)y;
    return i - (y < (float)i);
}

#endif
