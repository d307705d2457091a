/* Twins for x86 with AVX2 and FMA. Equal to isa/scalar.h in every integer bit. */
#ifndef INSITU_ISA_AVX2_PRIMITIVES_H
#define INSITU_ISA_AVX2_PRIMITIVES_H

#include "isa/avx2/intrinsics.h"

#include "isa/avx2/requant.h"
#include "isa/inline.h"

ALWAYS_INLINE float add8_f32(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

ALWAYS_INLINE int32_t add8_s32(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static inline float avx2_dot_f32(const float *a, const float *b, int32_t n)
{
    __m256 s0 = _mm256_setzero_ps(), s1 = s0;
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        s0 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), s0);
        s1 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8), _mm256_loadu_ps(b + i + 8), s1);
    }
    return add8_f32(_mm256_add_ps(s0, s1)) + scalar_dot_f32(a + i, b + i, n - i);
}
#define dot_f32 avx2_dot_f32

static inline float avx2_sum_f32(const float *x, int32_t n)
{
    __m256 s = _mm256_setzero_ps();
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        s = _mm256_add_ps(s, _mm256_loadu_ps(x + i));
    }
    return add8_f32(s) + scalar_sum_f32(x + i, n - i);
}
#define sum_f32 avx2_sum_f32

static inline int32_t avx2_dot_s16s8(const int16_t *a, const int8_t *b, int32_t n)
{
    __m256i s = _mm256_setzero_si256();
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(b + i)));
        s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_loadu_si256((const __m256i *)(a + i)), w));
    }
    return (int32_t)((uint32_t)add8_s32(s) + (uint32_t)scalar_dot_s16s8(a + i, b + i, n - i));
}
#define dot_s16s8 avx2_dot_s16s8

static inline void avx2_axpy_f32(float *y, const float *x, float a, int32_t n)
{
    const __m256 f = _mm256_set1_ps(a);
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_fmadd_ps(f, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    }
    scalar_axpy_f32(y + i, x + i, a, n - i);
}
#define axpy_f32 avx2_axpy_f32

static inline void avx2_requant_row(int8_t *y, const int32_t *acc, const requant *q, int32_t n)
{
    for (int32_t i = 0; i < n; i += 16) {
        const requant_lanes r = requant_load(q, i, n - i < 16 ? n - i : 16);
        requant_store(y + i, NULL, load_words(acc + i, r.n), &r);
    }
}
#define requant_row avx2_requant_row

/* rescale((x - zero) 2^20): the shift is at most zero */
ALWAYS_INLINE words16 sum_terms(const int8_t *x, int32_t n, int32_t zero, const requant_lanes *r)
{
    words16 terms = widened(load_bytes(x, n));
    UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256i from = _mm256_sub_epi32(terms.v[i], _mm256_set1_epi32(zero));
        terms.v[i] = requant_litert8(_mm256_slli_epi32(from, 20), r->part + i);
    }
    return terms;
}

static inline void avx2_sum_litert_run(int8_t *y, const int8_t *a, const int8_t *b, int32_t n,
                                       const sum_litert_quant *quant)
{
    const sum_litert_quant q = *quant; /* a copy, because a byte pointer like y may alias anything */
    const int8_t shifts[3] = {(int8_t)q.a_shift, (int8_t)q.b_shift, (int8_t)q.y_shift};
    const requant of_a = {0, 0, 0, 0, 0, REQUANT_LITERT, 0, &q.ma, shifts};
    const requant of_b = {0, 0, 0, 0, 0, REQUANT_LITERT, 0, &q.mb, shifts + 1};
    const requant of_y = {0, 0, q.y_zero, q.lo, q.hi, REQUANT_LITERT, 0, &q.my, shifts + 2};
    const requant_lanes ra = requant_load(&of_a, 0, 16), rb = requant_load(&of_b, 0, 16);
    requant_lanes r = requant_load(&of_y, 0, 16);
    for (int32_t i = 0; i < n; i += 16) {
        r.n = n - i < 16 ? n - i : 16;
        const words16 ta = sum_terms(a + i, r.n, q.a_zero, &ra), tb = sum_terms(b + i, r.n, q.b_zero, &rb);
        requant_store(y + i, NULL, q.sign > 0 ? add_words(ta, tb) : subtract_words(ta, tb), &r);
    }
}
#define sum_litert_run avx2_sum_litert_run

#include "isa/avx2/depthwise.h"

#endif
