/* Twins for x86 with AVX-512 (F, BW, DQ, VL) and VNNI. Equal to isa/scalar.h in every integer bit. */
#ifndef INSITU_ISA_AVX512_PRIMITIVES_H
#define INSITU_ISA_AVX512_PRIMITIVES_H

#include "isa/avx512/bytes.h"

#include "isa/avx512/requant.h"
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

/* rescale((x - zero) 2^20): at most 2^28, so that no rounding term overflows */
ALWAYS_INLINE __m512i sum_term(__m128i x, int32_t zero, int32_t m, int32_t shift)
{
    const __m512i from = _mm512_sub_epi32(_mm512_cvtepi8_epi32(x), _mm512_set1_epi32(zero));
    if (m == 1 << 30 && shift == 0) { /* exactly one half: LiteRT's multiplier for the term of the larger scale */
        return _mm512_slli_epi32(from, 19);
    }
    const __m512i v = _mm512_slli_epi32(from, 20);
    const __m512i m2 = _mm512_set1_epi32((int32_t)((uint32_t)m << 1));
    const __m512i h = high16(1, v, m2, m2, m >= 1 << 30 ? 0xffff : 0);
    const __m512i half = _mm512_set1_epi32((1 << -shift) >> 1);
    const __m512i away = _mm512_maskz_srai_epi32(shift < 0 ? 0xffff : 0, h, 31);
    return _mm512_sra_epi32(_mm512_add_epi32(_mm512_add_epi32(h, half), away), _mm_cvtsi32_si128(-shift));
}

static inline void avx512_sum_litert_run(int8_t *y, const int8_t *a, const int8_t *b, int32_t n,
                                         const sum_litert_quant *quant)
{
    const sum_litert_quant copy = *quant, *q = &copy; /* a copy, because a byte pointer like y may alias anything */
    const int8_t shift = (int8_t)q->y_shift;
    const requant out = {0, 0, q->y_zero, q->lo, q->hi, REQUANT_LITERT, 0, &quant->my, &shift};
    const requant_lanes r = requant_load(&out, 0, 0xffff);
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const __m512i ta = sum_term(_mm_maskz_loadu_epi8(k, a + i), q->a_zero, q->ma, q->a_shift);
        const __m512i tb = sum_term(_mm_maskz_loadu_epi8(k, b + i), q->b_zero, q->mb, q->b_shift);
        const __m512i sum = q->sign > 0 ? _mm512_add_epi32(ta, tb) : _mm512_sub_epi32(ta, tb);
        requant_store(1, y + i, 0, k, &sum, 1, &r);
    }
}
#define sum_litert_run avx512_sum_litert_run

/* the inputs of a tile: see scalar_tile_s8 */
typedef struct {
    int32_t y_row;
    const uint8_t *const *u;
    int32_t runs, k4, step;
    const int8_t *w;
    const int32_t *b, *c;
    int32_t outs;
    const requant *q;
} tile_source;

/* P rows by N blocks of sixteen outputs from o on, all sums in registers */
ALWAYS_INLINE void tile_block_s8(const int P, const int N, int8_t *y, uint8_t *mask, ptrdiff_t row,
                                 const tile_source *t, int32_t o)
{
    __m512i acc[8 * 4];
    UNROLL
    for (int j = 0; j < N; j++) {
        const __mmask16 k = lanes16(t->outs - o - 16 * j);
        __m512i start = _mm512_maskz_loadu_epi32(k, t->c + o + 16 * j);
        if (t->b) {
            start = _mm512_add_epi32(start, _mm512_maskz_loadu_epi32(k, t->b + o + 16 * j));
        }
        UNROLL
        for (int p = 0; p < P; p++) {
            acc[p * N + j] = start;
        }
    }
    const ptrdiff_t block = (ptrdiff_t)t->runs * t->k4 * 64, step = t->step;
    const int8_t *w = t->w + o / 16 * block;
    for (int32_t r = 0; r < t->runs; r++) {
        const uint8_t *u = t->u[r] + row * step;
        for (int32_t k = 0; k < t->k4; k++, u += 4, w += 64) {
            __m512i wk[8];
            UNROLL
            for (int j = 0; j < N; j++) {
                wk[j] = _mm512_loadu_si512(w + j * block);
            }
            UNROLL
            for (int p = 0; p < P; p++) {
                int32_t four;
                __builtin_memcpy(&four, u + p * step, 4);
                const __m512i x = _mm512_set1_epi32(four);
                UNROLL
                for (int j = 0; j < N; j++) {
                    acc[p * N + j] = _mm512_dpbusd_epi32(acc[p * N + j], x, wk[j]);
                }
            }
        }
    }
    UNROLL
    for (int j = 0; j < N; j++) {
        const __mmask16 k = lanes16(t->outs - o - 16 * j);
        const requant_lanes r = requant_load(t->q, o + 16 * j, k);
        requant_store(P, y + row * t->y_row + o + 16 * j, t->y_row, k, acc + j, N, &r);
        requant_masks(P, mask_row(mask, (int32_t)row, t->y_row), (t->y_row + 7) / 8, k, acc + j, N, &r);
    }
}

/* P rows, all outputs, N blocks at a time */
ALWAYS_INLINE void tile_rows_s8(const int P, const int N, int8_t *y, uint8_t *mask, ptrdiff_t row,
                                const tile_source *t)
{
    int32_t o = 0;
    for (; o + 16 * (N - 1) < t->outs; o += 16 * N) {
        tile_block_s8(P, N, y, mask, row, t, o);
    }
    for (; N > 1 && o < t->outs; o += 16) {
        tile_block_s8(P, 1, y, mask, row, t, o);
    }
}

static __attribute__((noinline, unused)) void avx512_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row,
                                                             const uint8_t *const *u, int32_t runs, int32_t k4,
                                                             int32_t step, int32_t rows, const int8_t *w,
                                                             const int32_t *b, const int32_t *c, int32_t outs,
                                                             const requant *q)
{
    const tile_source t = {y_row, u, runs, k4, step, w, b, c, outs, q};
    if (rows == 16 && outs <= 16) {
        tile_rows_s8(16, 1, y, mask, 0, &t);
        return;
    }
    const int32_t more = rows > 8 ? 8 : 0;
    if (more) {
        tile_rows_s8(8, 2, y, mask, 0, &t);
    }
    switch (rows - more) {
    case 8: tile_rows_s8(8, 2, y, mask, more, &t); break;
    case 7: tile_rows_s8(7, 2, y, mask, more, &t); break;
    case 6: tile_rows_s8(6, 2, y, mask, more, &t); break;
    case 5: tile_rows_s8(5, 2, y, mask, more, &t); break;
    case 4: tile_rows_s8(4, 2, y, mask, more, &t); break;
    case 3: tile_rows_s8(3, 2, y, mask, more, &t); break;
    case 2: tile_rows_s8(2, 4, y, mask, more, &t); break;
    default: tile_rows_s8(1, 8, y, mask, more, &t); break;
    }
}
#define tile_s8 avx512_tile_s8

#include "isa/avx512/depthwise.h"

#endif
