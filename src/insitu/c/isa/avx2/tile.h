/* tile.h for x86 with AVX2. Equal to scalar_tile_s8 in every bit.
 *
 * Without a byte multiplier that does not saturate, bytes are widened to 16 bits and multiplied in pairs.
 */
#ifndef INSITU_ISA_AVX2_TILE_H
#define INSITU_ISA_AVX2_TILE_H

#include "isa/avx2/wide_tile.h"

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

/* what the sums of n outputs start with */
ALWAYS_INLINE words16 tile_start(const int32_t *b, const int32_t *c, int32_t n)
{
    const words16 start = load_words(c, n);
    return b ? add_words(start, load_words(b, n)) : start;
}

/* acc = the sums of P rows by N vectors, each of four outputs from o on. A sum has two lanes, one for k = 0, 1 and one
 * for k = 2, 3 of every four. */
ALWAYS_INLINE void tile_sums_s8(const int P, const int N, __m256i *acc, int32_t row, const tile_source *t, int32_t o)
{
    const ptrdiff_t block = (ptrdiff_t)t->runs * t->k4 * 64;
    const int8_t *w = t->w + block * (o / 16);
    UNROLL
    for (int i = 0; i < P * N; i++) {
        acc[i] = _mm256_setzero_si256();
    }
    for (int32_t run = 0; run < t->runs; run++) {
        const uint8_t *u = t->u[run] + (ptrdiff_t)row * t->step;
        for (int32_t k = 0; k < t->k4; k++, u += 4, w += 64) {
            __m256i x[4];
            UNROLL
            for (int p = 0; p < P; p++) {
                x[p] = four_halves(u + (ptrdiff_t)p * t->step);
            }
            UNROLL
            for (int j = 0; j < N; j++) {
                const int8_t *from = w + j / 4 * block + j % 4 * 16;
                const __m256i f = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
                UNROLL
                for (int p = 0; p < P; p++) {
                    acc[N * p + j] = _mm256_add_epi32(acc[N * p + j], _mm256_madd_epi16(x[p], f));
                }
            }
        }
    }
}

/* P rows by sixteen outputs, the first of which is r->channel */
ALWAYS_INLINE void tile_block_s8(const int P, int8_t *y, uint8_t *mask, int32_t row, const tile_source *t, words16 start,
                                 const requant_lanes *r)
{
    __m256i acc[2 * 4];
    tile_sums_s8(P, 4, acc, row, t, r->channel);
    UNROLL
    for (int p = 0; p < P; p++) {
        requant_store(y + (ptrdiff_t)(row + p) * t->y_row + r->channel, mask_row(mask, row + p, t->y_row),
                      add_words(joined_lanes(acc + 4 * p), start), r);
    }
}

/* one row by 32 outputs from o on */
ALWAYS_INLINE void tile_row_s8(int8_t *y, uint8_t *mask, const tile_source *t, const int32_t *b, const int32_t *c,
                               int32_t o, const requant *q)
{
    __m256i acc[2 * 4];
    tile_sums_s8(1, 8, acc, 0, t, o);
    UNROLL
    for (int j = 0; j < 2; j++) {
        const requant_lanes r = requant_load(q, o + 16 * j, 16);
        const words16 start = tile_start(b ? b + r.channel : NULL, c + r.channel, 16);
        requant_store(y + r.channel, mask, add_words(joined_lanes(acc + 4 * j), start), &r);
    }
}

/* all rows by up to sixteen outputs from o on */
ALWAYS_INLINE void tile_outputs_s8(int8_t *y, uint8_t *mask, int32_t rows, const tile_source *t, words16 start,
                                   const requant_lanes *r)
{
    int32_t p = 0;
    for (; p + 2 <= rows; p += 2) {
        tile_block_s8(2, y, mask, p, t, start, r);
    }
    if (p < rows) {
        tile_block_s8(1, y, mask, p, t, start, r);
    }
}

/* all rows by eight outputs, the first (0) or last (1) of sixteen from r->channel on */
ALWAYS_INLINE void tile_eight_s8(const int half, int32_t rows, wide_tile t, words16 start, const requant_lanes *r)
{
    const wide_end end = wide_end_of(half, start, r);
    const int32_t o = r->channel + 8 * half;
    t.y += o;
    t.mask = t.mask ? t.mask + o / 8 : NULL;
    t.w += (ptrdiff_t)r->channel * t.runs * t.k4 * 4 + 32 * half;
    wide_rows(rows, &end, &t);
}

/* sixteen outputs of rows whose inputs are widened, or the eight that are left */
ALWAYS_INLINE void tile_sixteen_s8(int32_t rows, const wide_tile *t, words16 start, const requant_lanes *r)
{
    tile_eight_s8(0, rows, *t, start, r);
    if (r->n == 16) {
        tile_eight_s8(1, rows, *t, start, r);
    }
}

/* some rows by all outputs; inputs are widened if there is room for them */
ALWAYS_INLINE void tile_rows_s8(int8_t *y, uint8_t *mask, int32_t rows, const tile_source *t, const int32_t *b,
                                const int32_t *c, int32_t o, int32_t outs, const requant *q)
{
    int16_t halves[WIDE_HALVES];
    const int32_t span = (rows - 1) * t->step + 4 * t->k4, wide = (int64_t)span * t->runs <= WIDE_HALVES;
    const wide_tile all = {y, mask, t->w, halves, span, t->step, t->y_row, (t->y_row + 7) / 8, t->runs, t->k4};
    for (int32_t run = 0; wide && run < t->runs; run++) {
        widen_u8(halves + run * span, t->u[run], span);
    }
    for (; o < outs; o += 16) {
        const requant_lanes r = requant_load(q, o, outs - o < 16 ? outs - o : 16);
        const words16 start = tile_start(b ? b + o : NULL, c + o, r.n);
        if (wide && r.n % 8 == 0 && !r.scalar) {
            tile_sixteen_s8(rows, &all, start, &r);
        } else {
            tile_outputs_s8(y, mask, rows, t, start, &r);
        }
    }
}

static inline void avx2_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row, const uint8_t *const *u, int32_t runs,
                                int32_t k4, int32_t step, int32_t rows, const int8_t *w, const int32_t *b,
                                const int32_t *c, int32_t outs, const requant *q)
{
    const tile_source t = {y_row, u, runs, k4, step, w};
    int32_t o = 0;
    for (; rows == 1 && o + 32 <= outs; o += 32) {
        tile_row_s8(y, mask, &t, b, c, o, q);
    }
    tile_rows_s8(y, mask, rows, &t, b, c, o, outs, q);
}
#define plain_tile_s8 avx2_tile_s8

/* is there a shift that is left to plain C? */
ALWAYS_INLINE int any_scalar(const requant *q, int32_t outs)
{
    int found = 0;
    for (int32_t o = 0; o < outs; o += 16) {
        found |= requant_load(q, o, outs - o < 16 ? outs - o : 16).scalar;
    }
    return found;
}

/* as many rows at once as there is room for, so that little is done once for many */
static inline int avx2_rows_s8(int8_t *y, uint8_t *mask, int32_t y_row, const int8_t *x, int32_t k, int32_t count,
                               const int8_t *w, const int32_t *b, const int32_t *c, int32_t outs, const requant *q)
{
    int16_t halves[WIDE_HALVES];
    const int32_t most = WIDE_HALVES / k / 4 * 4, mask_bytes = (y_row + 7) / 8;
    if (count < 2 || most < 16 || k % 4 != 0 || outs % 8 != 0 || any_scalar(q, outs)) {
        return 0;
    }
    for (int32_t p = 0; p < count; p += most) {
        const int32_t rows = count - p < most ? count - p : most;
        const wide_tile all = {y + (ptrdiff_t)p * y_row, mask_row(mask, p, y_row), w, halves, 0, k, y_row, mask_bytes, 1,
                               k / 4};
        widen_s8(halves, x + (ptrdiff_t)p * k, rows * k);
        for (int32_t o = 0; o < outs; o += 16) {
            const requant_lanes r = requant_load(q, o, outs - o < 16 ? outs - o : 16);
            tile_sixteen_s8(rows, &all, tile_start(b ? b + o : NULL, c + o, r.n), &r);
        }
    }
    return 1;
}
#define rows_any_s8 avx2_rows_s8

#endif
