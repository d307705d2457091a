/* tile.h for x86 with AVX2. Equal to scalar_tile_s8 in every bit.
 *
 * Without a byte multiplier that does not saturate, bytes are widened to 16 bits and multiplied in pairs.
 */
#ifndef INSITU_ISA_AVX2_TILE_H
#define INSITU_ISA_AVX2_TILE_H

#include "isa/avx2/requant.h"
#include "isa/inline.h"

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

static inline void avx2_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row, const uint8_t *const *u, int32_t runs,
                                int32_t k4, int32_t step, int32_t rows, const int8_t *w, const int32_t *b,
                                const int32_t *c, int32_t outs, const requant *q)
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
#define tile_any_s8 avx2_tile_s8

#endif
