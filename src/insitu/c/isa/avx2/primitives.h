/* Twins for x86 with AVX2 and FMA. Equal to isa/scalar.h in every integer bit.
 *
 * Without a byte multiplier that does not saturate, bytes are widened to 16 bits and multiplied in pairs.
 */
#ifndef INSITU_ISA_AVX2_PRIMITIVES_H
#define INSITU_ISA_AVX2_PRIMITIVES_H

#include "isa/avx2/intrinsics.h"

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
    const int32_t *b, *c;
    int32_t outs;
    const requant *q;
} tile_source;

/* P rows by sixteen outputs from o on. A sum has two lanes, one for k = 0, 1 and one for k = 2, 3 of every four. */
ALWAYS_INLINE void tile_block_s8(const int P, int8_t *y, uint8_t *mask, int32_t row, const tile_source *t, int32_t o)
{
    const ptrdiff_t block = (ptrdiff_t)t->runs * t->k4 * 64;
    const int8_t *w = t->w + o / 16 * block;
    __m256i acc[2 * 4];
    UNROLL
    for (int i = 0; i < 4 * P; i++) {
        acc[i] = _mm256_setzero_si256();
    }
    for (int32_t r = 0; r < t->runs; r++) {
        const uint8_t *u = t->u[r] + (ptrdiff_t)row * t->step;
        for (int32_t k = 0; k < t->k4; k++, u += 4, w += 64) {
            __m256i x[2];
            UNROLL
            for (int p = 0; p < P; p++) {
                int32_t four;
                __builtin_memcpy(&four, u + (ptrdiff_t)p * t->step, 4);
                x[p] = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
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
        int32_t sums[16];
        UNROLL
        for (int j = 0; j < 2; j++) {
            const __m256i pairs = _mm256_hadd_epi32(acc[4 * p + 2 * j], acc[4 * p + 2 * j + 1]);
            _mm256_storeu_si256((__m256i *)(sums + 8 * j), _mm256_permute4x64_epi64(pairs, 0xd8));
        }
        for (int32_t i = 0; i < 16 && o + i < t->outs; i++) {
            const uint32_t start = (uint32_t)t->c[o + i] + (t->b ? (uint32_t)t->b[o + i] : 0u);
            y[(ptrdiff_t)(row + p) * t->y_row + o + i] =
                requant_masked(mask_row(mask, row + p, t->y_row), (int32_t)((uint32_t)sums[i] + start), o + i, t->q);
        }
    }
}

static inline void avx2_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row, const uint8_t *const *u, int32_t runs,
                                int32_t k4, int32_t step, int32_t rows, const int8_t *w, const int32_t *b, const int32_t *c, int32_t outs,
                                const requant *q)
{
    const tile_source t = {y_row, u, runs, k4, step, w, b, c, outs, q};
    for (int32_t o = 0; o < outs; o += 16) {
        int32_t p = 0;
        for (; p + 2 <= rows; p += 2) {
            tile_block_s8(2, y, mask, p, &t, o);
        }
        if (p < rows) {
            tile_block_s8(1, y, mask, p, &t, o);
        }
    }
}
#define tile_s8 avx2_tile_s8

#endif
