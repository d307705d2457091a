/* tile.h for x86 with AVX2, the usual case: all rows by eight outputs. tile.h has the other cases.
 *
 * The inputs of a tile are widened to 16 bits once, so that four of them reach all lanes by a plain load. Four to six
 * rows share the weights, which are widened as they are read.
 */
#ifndef INSITU_ISA_AVX2_WIDE_TILE_H
#define INSITU_ISA_AVX2_WIDE_TILE_H

#include "isa/avx2/requant.h"
#include "isa/inline.h"

enum { WIDE_HALVES = 6144, WIDE_ROWS = 6 }; /* widened inputs of a tile: 12 KB; rows of a block */

/* the inputs of a tile: run r of row p starts at u + r span + p step */
typedef struct {
    int8_t *y;     /* these three at the first of eight outputs */
    uint8_t *mask; /* or null */
    const int8_t *w;
    const int16_t *u;
    ptrdiff_t span, step, y_row, mask_row;
    int32_t runs, k4;
} wide_tile;

/* what becomes of the sums of eight outputs, in the order of joined_pairs */
typedef struct {
    __m256i start;
    requant_eight eight;
    __m256i zero, lo, hi;
    int litert;
} wide_end;

/* n bytes, widened */
ALWAYS_INLINE void widen_u8(int16_t *to, const uint8_t *from, int32_t n)
{
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(from + i))));
    }
    for (; i + 4 <= n; i += 4) {
        int32_t four;
        __builtin_memcpy(&four, from + i, 4);
        _mm_storel_epi64((__m128i *)(to + i), _mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
    }
    for (; i < n; i++) {
        to[i] = from[i];
    }
}

/* x + 128 of n bytes, widened; n is a multiple of 4 */
ALWAYS_INLINE void widen_s8(int16_t *to, const int8_t *x, int32_t n)
{
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(x + i)));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_add_epi16(wide, _mm256_set1_epi16(128)));
    }
    for (; i < n; i++) {
        to[i] = (int16_t)(x[i] + 128);
    }
}

/* four halves, twice in each half of a vector */
ALWAYS_INLINE __m256i four_wide(const int16_t *from)
{
    int64_t four;
    __builtin_memcpy(&four, from, 8);
    return _mm256_set1_epi64x(four);
}

/* acc = the sums of P rows by two vectors, each of four outputs. A sum has two lanes, one for k = 0, 1 and one for
 * k = 2, 3 of every four. */
ALWAYS_INLINE void wide_sums(const int P, __m256i *acc, int32_t row, const wide_tile *t)
{
    const ptrdiff_t step = t->step, k4 = t->k4;
    const int8_t *w = t->w;
    UNROLL
    for (int i = 0; i < 2 * P; i++) {
        acc[i] = _mm256_setzero_si256();
    }
    for (int32_t run = 0; run < t->runs; run++) {
        const int16_t *u[2]; /* every third row: the two after it are within reach of an address */
        UNROLL
        for (int p = 0; p < P; p += 3) {
            u[p / 3] = t->u + run * t->span + (row + p) * step;
        }
        for (ptrdiff_t k = 0; k < k4; k++, w += 64) {
            const __m256i f0 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w));
            const __m256i f1 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 16)));
            UNROLL
            for (int p = 0; p < P; p++) {
                const __m256i x = four_wide(u[p / 3] + p % 3 * step);
                acc[2 * p] = _mm256_add_epi32(acc[2 * p], _mm256_madd_epi16(x, f0));
                acc[2 * p + 1] = _mm256_add_epi32(acc[2 * p + 1], _mm256_madd_epi16(x, f1));
            }
            UNROLL
            for (int p = 0; p < P; p += 3) {
                u[p / 3] += 4;
                KEEP(u[p / 3]);
            }
        }
    }
}

/* eight sums of two lanes each, outputs 0..3 and 4..7, as words in the order 0, 1, 4, 5, 2, 3, 6, 7 */
ALWAYS_INLINE __m256i joined_pairs(__m256i low, __m256i high)
{
    const __m256 a = _mm256_castsi256_ps(low), b = _mm256_castsi256_ps(high);
    const __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    return _mm256_add_epi32(even, _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)));
}

/* words 0..7 of sixteen in the order of joined_pairs, or 8..15 if `half` is 1 */
ALWAYS_INLINE __m256i pairs_order(const int half, __m256i x, __m256i y)
{
    const __m256i eight = half ? _mm256_permute2x128_si256(x, y, 0x31) : _mm256_permute2x128_si256(x, y, 0x20);
    return _mm256_permute4x64_epi64(eight, 0xd8);
}

/* what becomes of the sums of eight outputs */
ALWAYS_INLINE wide_end wide_end_of(const int half, words16 start, const requant_lanes *r)
{
    const requant_eight *a = r->part, *b = r->part + 1;
    const requant_eight eight = {pairs_order(half, a->m, b->m), pairs_order(half, a->m_odd, b->m_odd),
                                 pairs_order(half, a->right, b->right), pairs_order(half, a->more, b->more),
                                 pairs_order(half, a->rest, b->rest)};
    const wide_end end = {pairs_order(half, start.v[0], start.v[1]), eight,
                          _mm256_set1_epi16((int16_t)r->q->y_zero), _mm256_set1_epi16((int16_t)r->q->lo),
                          _mm256_set1_epi16((int16_t)r->q->hi), r->litert};
    return end;
}

/* sixteen halves in the order of two rows of joined_pairs, as bytes in order, with saturation */
ALWAYS_INLINE __m128i packed_rows(__m256i v)
{
    return _mm_shuffle_epi8(packed(v), _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
}

/* the results of rows `row` and, if `both`, row + 1, of which a and b are the sums */
ALWAYS_INLINE void wide_store(const int both, int32_t row, const __m256i *a, const __m256i *b, const wide_end *e,
                              const wide_tile *t)
{
    const __m256i x = _mm256_add_epi32(joined_pairs(a[0], a[1]), e->start);
    const __m256i z = both ? _mm256_add_epi32(joined_pairs(b[0], b[1]), e->start) : x;
    const __m256i low = e->litert ? requant_litert8(x, &e->eight) : requant_single8(x, &e->eight);
    const __m256i high = !both ? low : e->litert ? requant_litert8(z, &e->eight) : requant_single8(z, &e->eight);
    const __m256i v = _mm256_adds_epi16(_mm256_packs_epi32(low, high), e->zero);
    const __m256i in = _mm256_min_epi16(_mm256_max_epi16(v, e->lo), e->hi);
    const __m128i y = packed_rows(in);
    int8_t *to = t->y + (ptrdiff_t)row * t->y_row;
    _mm_storel_epi64((__m128i *)to, y);
    if (both) {
        _mm_storeh_pd((double *)(to + t->y_row), _mm_castsi128_pd(y));
    }
    if (t->mask) {
        const int bits = _mm_movemask_epi8(packed_rows(_mm256_cmpeq_epi16(v, in)));
        uint8_t *mask = t->mask + (ptrdiff_t)row * t->mask_row;
        mask[0] = (uint8_t)bits;
        if (both) {
            mask[t->mask_row] = (uint8_t)(bits >> 8);
        }
    }
}

ALWAYS_INLINE void wide_block(const int P, int32_t row, const wide_end *e, const wide_tile *t)
{
    __m256i acc[2 * WIDE_ROWS];
    wide_sums(P, acc, row, t);
    UNROLL
    for (int p = 0; p + 2 <= P; p += 2) {
        wide_store(1, row + p, acc + 2 * p, acc + 2 * p + 2, e, t);
    }
    if (P % 2) {
        wide_store(0, row + P - 1, acc + 2 * P - 2, NULL, e, t);
    }
}

/* `rows` rows by eight outputs, four rows at a time; five or six rather than one or two at the end */
APART void wide_rows(int32_t rows, const wide_end *e, const wide_tile *t)
{
    int32_t p = 0;
    for (; p + 8 <= rows || p + 4 == rows || p + 7 == rows; p += 4) {
        wide_block(4, p, e, t);
    }
    switch (rows - p) {
    case 6: wide_block(6, p, e, t); break;
    case 5: wide_block(5, p, e, t); break;
    case 3: wide_block(3, p, e, t); break;
    case 2: wide_block(2, p, e, t); break;
    case 1: wide_block(1, p, e, t); break;
    default: break;
    }
}

#endif
