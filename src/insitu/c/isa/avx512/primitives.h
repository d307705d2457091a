/* Twins for x86 with AVX-512 (F, BW, DQ, VL) and VNNI. Equal to isa/scalar.h in every integer bit. */
#ifndef INSITU_ISA_AVX512_PRIMITIVES_H
#define INSITU_ISA_AVX512_PRIMITIVES_H

#include "isa/avx512/bytes.h"

#include "isa/avx512/fours.h"
#include "kernels/shapes.h"

static inline float avx512_dot_f32(const float *a, const float *b, int32_t n)
{
    __m512 s0 = _mm512_setzero_ps(), s1 = s0;
    int32_t i = 0;
    for (; i + 32 <= n; i += 32) {
        s0 = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), s0);
        s1 = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16), _mm512_loadu_ps(b + i + 16), s1);
    }
    for (; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        s0 = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(k, a + i), _mm512_maskz_loadu_ps(k, b + i), s0);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(s0, s1));
}
#define dot_f32 avx512_dot_f32

static inline float avx512_sum_f32(const float *x, int32_t n)
{
    __m512 s = _mm512_setzero_ps();
    for (int32_t i = 0; i < n; i += 16) {
        s = _mm512_add_ps(s, _mm512_maskz_loadu_ps(lanes16(n - i), x + i));
    }
    return _mm512_reduce_add_ps(s);
}
#define sum_f32 avx512_sum_f32

static inline int32_t avx512_dot_s16s8(const int16_t *a, const int8_t *b, int32_t n)
{
    __m512i s = _mm512_setzero_si512();
    int32_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512i w = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(b + i)));
        s = _mm512_dpwssd_epi32(s, _mm512_loadu_si512(a + i), w);
    }
    if (i < n) {
        const __mmask32 k = (__mmask32)((1u << (n - i)) - 1u);
        const __m512i w = _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(k, b + i));
        s = _mm512_dpwssd_epi32(s, _mm512_maskz_loadu_epi16(k, a + i), w);
    }
    return _mm512_reduce_add_epi32(s);
}
#define dot_s16s8 avx512_dot_s16s8

static inline void avx512_axpy_f32(float *y, const float *x, float a, int32_t n)
{
    const __m512 f = _mm512_set1_ps(a);
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const __m512 sum = _mm512_fmadd_ps(f, _mm512_maskz_loadu_ps(k, x + i), _mm512_maskz_loadu_ps(k, y + i));
        _mm512_mask_storeu_ps(y + i, k, sum);
    }
}
#define axpy_f32 avx512_axpy_f32

static inline void avx512_axpy_s8(int32_t *y, const int8_t *x, int32_t zero, int32_t a, int32_t n)
{
    const __m512i f = _mm512_set1_epi32(a), z = _mm512_set1_epi32(zero);
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const __m512i v = _mm512_sub_epi32(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, x + i)), z);
        const __m512i sum = _mm512_add_epi32(_mm512_mullo_epi32(f, v), _mm512_maskz_loadu_epi32(k, y + i));
        _mm512_mask_storeu_epi32(y + i, k, sum);
    }
}
#define axpy_s8 avx512_axpy_s8

static inline void avx512_max_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const __m512 top = _mm512_max_ps(_mm512_maskz_loadu_ps(k, x + i), _mm512_maskz_loadu_ps(k, y + i));
        _mm512_mask_storeu_ps(y + i, k, top);
    }
}
#define max_f32 avx512_max_f32

static inline void avx512_max_s8(int8_t *y, const int8_t *x, int32_t n)
{
    for (int32_t i = 0; i < n; i += 64) {
        const __mmask64 k = lanes64(n - i);
        const __m512i top = _mm512_max_epi8(_mm512_maskz_loadu_epi8(k, x + i), _mm512_maskz_loadu_epi8(k, y + i));
        _mm512_mask_storeu_epi8(y + i, k, top);
    }
}
#define max_s8 avx512_max_s8

static inline void avx512_centre_s8(int16_t *y, const int8_t *x, int32_t zero, int32_t n)
{
    const __m512i z = _mm512_set1_epi16((int16_t)zero);
    for (int32_t i = 0; i < n; i += 32) {
        const __mmask32 k = (__mmask32)lanes64(n - i);
        const __m512i v = _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(k, x + i));
        _mm512_mask_storeu_epi16(y + i, k, _mm512_sub_epi16(v, z));
    }
}
#define centre_s8 avx512_centre_s8

static inline void avx512_raise_s8(uint8_t *y, const int8_t *x, int32_t n)
{
    const __m512i top = _mm512_set1_epi8(-128);
    int32_t i = 0;
    for (; i + 64 <= n; i += 64) {
        _mm512_storeu_si512(y + i, _mm512_xor_si512(_mm512_loadu_si512(x + i), top));
    }
    if (i < n) {
        const __mmask64 k = lanes64(n - i);
        _mm512_mask_storeu_epi8(y + i, k, _mm512_xor_si512(_mm512_maskz_loadu_epi8(k, x + i), top));
    }
}
#define raise_s8 avx512_raise_s8

static inline void avx512_requant_row(int8_t *y, const int32_t *acc, const requant *q, int32_t n)
{
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const requant_lanes r = requant_load(q, i, k);
        const __m512i sums = _mm512_maskz_loadu_epi32(k, acc + i);
        requant_store(1, y + i, 0, k, &sums, 1, &r);
    }
}
#define requant_row avx512_requant_row

/* rescale((x - zero) 2^20): at most 2^28, so that no rounding term overflows. Of d = x - zero, d 2^20 m / 2^31 rounded half
 * up is d (m >> 11) + (d (m & 2047) + 2^10 >> 11), in words of 32 bits */
ALWAYS_INLINE __m512i sum_term(__m128i x, int32_t zero, int32_t m, int32_t shift)
{
    const __m512i d = _mm512_sub_epi32(_mm512_cvtepi8_epi32(x), _mm512_set1_epi32(zero));
    if (m == 1 << 30 && shift == 0) { /* exactly one half: LiteRT's multiplier for the term of the larger scale */
        return _mm512_slli_epi32(d, 19);
    }
    const __m512i low = _mm512_mullo_epi32(d, _mm512_set1_epi32(m & 2047));
    const __m512i rest = _mm512_srai_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(1024)), 11);
    const __m512i h = _mm512_add_epi32(_mm512_mullo_epi32(d, _mm512_set1_epi32(m >> 11)), rest);
    const __m512i half = _mm512_set1_epi32((1 << -shift) >> 1);
    const __m512i away = _mm512_maskz_srai_epi32(shift < 0 ? 0xffff : 0, h, 31);
    return _mm512_sra_epi32(_mm512_add_epi32(_mm512_add_epi32(h, half), away), _mm_cvtsi32_si128(-shift));
}

ALWAYS_INLINE __m512i sum_of_terms(__m128i a, __m128i b, const sum_litert_quant *q)
{
    const __m512i ta = sum_term(a, q->a_zero, q->ma, q->a_shift), tb = sum_term(b, q->b_zero, q->mb, q->b_shift);
    return q->sign > 0 ? _mm512_add_epi32(ta, tb) : _mm512_sub_epi32(ta, tb);
}

ALWAYS_INLINE void sum_litert_sixteen(int8_t *y, const int8_t *a, const int8_t *b, __mmask16 k, const sum_litert_quant *q,
                                      const requant_lanes *r)
{
    const __m512i sum = sum_of_terms(_mm_maskz_loadu_epi8(k, a), _mm_maskz_loadu_epi8(k, b), q);
    requant_store(1, y, 0, k, &sum, 1, r);
}

/* the first n / 64 * 64 elements; sums are at most 2^29, as requant_bytes needs */
ALWAYS_INLINE int32_t sum_litert_fours(const int away, int8_t *y, const int8_t *a, const int8_t *b, int32_t n,
                                       const sum_litert_quant *q, const requant_fours *f)
{
    int32_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i sums[4];
        UNROLL
        for (int j = 0; j < 4; j++) {
            const __m128i *const at = (const __m128i *)(a + i) + j, *const bt = (const __m128i *)(b + i) + j;
            const __m512i sum = sum_of_terms(_mm_loadu_si128(at), _mm_loadu_si128(bt), q);
            sums[j] = _mm512_add_epi32(sum, _mm512_set1_epi32(FOURS_RAISED));
        }
        _mm512_storeu_si512(y + i, requant_bytes(away, sums, f));
    }
    return i;
}

static inline void avx512_sum_litert_run(int8_t *y, const int8_t *a, const int8_t *b, int32_t n,
                                         const sum_litert_quant *quant)
{
    const sum_litert_quant copy = *quant, *q = &copy; /* a copy, because a byte pointer like y may alias anything */
    const int8_t shift = (int8_t)q->y_shift;
    const requant out = {0, 0, q->y_zero, q->lo, q->hi, REQUANT_LITERT, 0, &quant->my, &shift};
    const requant_lanes r = requant_load(&out, 0, 0xffff);
    tile_outputs ready;
    fours_prepare(&ready, &out, 0, 0xffff);
    const requant_fours f = fours_load(&ready);
    int32_t i = 0;
    if (ready.possible) {
        i = ready.away ? sum_litert_fours(1, y, a, b, n, q, &f) : sum_litert_fours(0, y, a, b, n, q, &f);
    }
    for (; i + 16 <= n; i += 16) {
        sum_litert_sixteen(y + i, a + i, b + i, 0xffff, q, &r);
    }
    if (i < n) {
        sum_litert_sixteen(y + i, a + i, b + i, lanes16(n - i), q, &r);
    }
}
#define sum_litert_run avx512_sum_litert_run

#include "isa/avx512/depthwise.h"

#endif
