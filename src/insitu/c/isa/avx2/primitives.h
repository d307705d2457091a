/* Twins for x86 with AVX2 and FMA. Equal to isa/scalar.h in every integer bit.
 *
 * Without a byte multiplier that does not saturate, bytes are widened to 16 bits and multiplied in pairs.
 */
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

/* the inputs of a tile: see scalar_tile_s8 */
typedef struct {
    int32_t y_row;
    const uint8_t *const *u;
    int32_t runs, k4, step;
    const int8_t *w;
} tile_source;

/* four bytes as halves of words, twice in each half of a vector */
ALWAYS_INLINE __m256i four_halves(const uint8_t *from)
{
    const __m256i places = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 1, -1, 2, -1, 3, -1, 0, -1, 1, -1, 2, -1, 3, -1));
    int32_t four;
    __builtin_memcpy(&four, from, 4);
    return _mm256_shuffle_epi8(_mm256_set1_epi32(four), places);
}

/* from sums with two lanes per output, outputs 0..3, 4..7 and so on, to sixteen words */
ALWAYS_INLINE words16 joined_lanes(const __m256i *acc)
{
    const words16 sums = {{_mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[0], acc[2]), 0xd8),
                           _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[1], acc[3]), 0xd8)}};
    return sums;
}

/* P rows by sixteen outputs, the first of which is r->channel. A sum has two lanes, one for k = 0, 1 and one for
 * k = 2, 3 of every four. */
ALWAYS_INLINE void tile_block_s8(const int P, int8_t *y, uint8_t *mask, int32_t row, const tile_source *t, words16 start,
                                 const requant_lanes *r)
{
    const int8_t *w = t->w + (ptrdiff_t)t->runs * t->k4 * 64 * (r->channel / 16);
    __m256i acc[2 * 4];
    UNROLL
    for (int i = 0; i < 4 * P; i++) {
        acc[i] = _mm256_setzero_si256();
    }
    for (int32_t run = 0; run < t->runs; run++) {
        const uint8_t *u = t->u[run] + (ptrdiff_t)row * t->step;
        for (int32_t k = 0; k < t->k4; k++, u += 4, w += 64) {
            __m256i x[2];
            UNROLL
            for (int p = 0; p < P; p++) {
                x[p] = four_halves(u + (ptrdiff_t)p * t->step);
            }
            UNROLL
            for (int j = 0; j < 4; j++) {
                const __m256i f = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 16 * j)));
                UNROLL
                for (int p = 0; p < P; p++) {
                    acc[4 * p + j] = _mm256_add_epi32(acc[4 * p + j], _mm256_madd_epi16(x[p], f));
                }
            }
        }
    }
    UNROLL
    for (int p = 0; p < P; p++) {
        requant_store(y + (ptrdiff_t)(row + p) * t->y_row + r->channel, mask_row(mask, row + p, t->y_row),
                      add_words(joined_lanes(acc + 4 * p), start), r);
    }
}

static __attribute__((noinline, unused)) void avx2_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row,
                                                           const uint8_t *const *u, int32_t runs, int32_t k4,
                                                           int32_t step, int32_t rows, const int8_t *w,
                                                           const int32_t *b, const int32_t *c, int32_t outs,
                                                           const requant *q)
{
    const tile_source t = {y_row, u, runs, k4, step, w};
    for (int32_t o = 0; o < outs; o += 16) {
        const int32_t n = outs - o < 16 ? outs - o : 16;
        const requant_lanes r = requant_load(q, o, n);
        words16 start = load_words(c + o, n);
        if (b) {
            start = add_words(start, load_words(b + o, n));
        }
        int32_t p = 0;
        for (; p + 2 <= rows; p += 2) {
            tile_block_s8(2, y, mask, p, &t, start, &r);
        }
        if (p < rows) {
            tile_block_s8(1, y, mask, p, &t, start, &r);
        }
    }
}
#define tile_s8 avx2_tile_s8

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
        terms.v[i] = requant_litert8(_mm256_slli_epi32(from, 20), r, i);
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
