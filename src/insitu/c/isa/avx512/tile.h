/* tile.h for x86 with AVX-512 and VNNI: blocks of outputs stay in registers. Equal to scalar_tile_s8 in every bit.
 *
 * Sums go through memory to be requantised, in one place for blocks of all sizes: that takes a few instructions more
 * per block, and a tenth of the code.
 */
#ifndef INSITU_ISA_AVX512_TILE_H
#define INSITU_ISA_AVX512_TILE_H

#include "isa/avx512/bytes.h"

#include "isa/avx512/fours.h"

/* the inputs of a tile: see scalar_tile_s8 */
typedef struct {
    int8_t *y;
    uint8_t *mask;
    int32_t y_row;
    const uint8_t *const *u;
    int32_t runs, k4, step;
    const int8_t *w;
    const int32_t *b, *c;
    int32_t outs;
    const requant *q;
} tile_source;

/* are the sums of sixteen outputs within 2^30? */
ALWAYS_INLINE int tile_within(int32_t o, __mmask16 k, const tile_source *t)
{
    __m512i start = _mm512_maskz_loadu_epi32(k, t->c + o);
    if (t->b) {
        start = _mm512_add_epi32(start, _mm512_maskz_loadu_epi32(k, t->b + o));
    }
    const __mmask16 far = _mm512_cmpge_epu32_mask(_mm512_abs_epi32(start), _mm512_set1_epi32(1 << 29));
    return far == 0 && (int64_t)t->runs * t->k4 <= 1 << 12;
}

/* y of the rows four at a time, where that is possible; returns how many are done */
ALWAYS_INLINE int32_t tile_fours_s8(const int away, const __m512i *sums, int32_t rows, int8_t *y, ptrdiff_t step,
                                    const requant_fours *f)
{
    int32_t p = 0;
    for (; p + 4 <= rows; p += 4) {
        store_fours(y + p * step, step, requant_bytes(away, sums + p, f));
    }
    return p;
}

/* y and mask of `rows` rows from this row on, sixteen outputs from o on */
APART void tile_finish_s8(const __m512i *sums, int32_t rows, ptrdiff_t row, int32_t o, const tile_source *t)
{
    const __mmask16 k = lanes16(t->outs - o);
    const requant_lanes r = requant_load(t->q, o, k);
    int8_t *y = t->y + row * t->y_row + o;
    uint8_t *mask = mask_row(t->mask, (int32_t)row, t->y_row);
    const requant_fours f = requant_fours_from(&r);
    int32_t done = 0;
    if (k == 0xffff && f.possible && tile_within(o, k, t)) {
        done = f.away ? tile_fours_s8(1, sums, rows, y, t->y_row, &f) : tile_fours_s8(0, sums, rows, y, t->y_row, &f);
    }
    for (int32_t p = done; p < rows; p++) {
        requant_store(1, y + p * (ptrdiff_t)t->y_row, 0, k, sums + p, 1, &r);
    }
    for (int32_t p = 0; mask && p < rows; p++, mask += (t->y_row + 7) / 8) {
        requant_masks(1, mask, 0, k, sums + p, 1, &r);
    }
}

/* y of one row, `blocks` times sixteen outputs from o on that share a multiplier: it is prepared once */
APART void tile_finish_row_s8(const __m512i *sums, int32_t blocks, ptrdiff_t row, int32_t o, const tile_source *t)
{
    const requant_lanes r = requant_load(t->q, o, lanes16(t->outs - o));
    int8_t *y = t->y + row * t->y_row;
    for (int32_t j = 0; j < blocks; j++, o += 16) {
        requant_store(1, y + o, 0, lanes16(t->outs - o), sums + j, 1, &r);
    }
}

/* P rows by N blocks of sixteen outputs from o on, all sums in registers */
ALWAYS_INLINE void tile_block_s8(const int P, const int N, ptrdiff_t row, const tile_source *t, int32_t o)
{
    __m512i acc[8 * 4], sums[8 * 4];
    UNROLL
    for (int j = 0; j < N; j++) {
        const __mmask16 k = lanes16(t->outs - o - 16 * j);
        __m512i start = _mm512_maskz_loadu_epi32(k, t->c + o + 16 * j);
        if (t->b) {
            start = _mm512_add_epi32(start, _mm512_maskz_loadu_epi32(k, t->b + o + 16 * j));
        }
        UNROLL
        for (int p = 0; p < P; p++) {
            acc[j * P + p] = start;
        }
    }
    const ptrdiff_t block = (ptrdiff_t)t->runs * t->k4 * 64, step = t->step;
    const int32_t k4 = t->k4;
    const int8_t *w = t->w + o / 16 * block;
    for (int32_t r = 0; r < t->runs; r++) {
        const uint8_t *u[6]; /* every third row: the two after it are within reach of an address */
        UNROLL
        for (int p = 0; p < P; p += 3) {
            u[p / 3] = t->u[r] + (row + p) * step;
        }
        for (int32_t k = 0; k < k4; k++, w += 64) {
            __m512i wk[8];
            UNROLL
            for (int j = 0; j < N; j++) {
                wk[j] = _mm512_loadu_si512(w + j * block);
            }
            UNROLL
            for (int p = 0; p < P; p++) {
                int32_t four;
                __builtin_memcpy(&four, u[p / 3] + p % 3 * step, 4);
                const __m512i x = _mm512_set1_epi32(four);
                UNROLL
                for (int j = 0; j < N; j++) {
                    acc[j * P + p] = _mm512_dpbusd_epi32(acc[j * P + p], x, wk[j]);
                }
            }
            UNROLL
            for (int p = 0; p < P; p += 3) {
                u[p / 3] += 4;
                KEEP(u[p / 3]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < P * N; i++) {
        sums[i] = acc[i];
    }
    if (P == 1 && !t->q->step && !t->mask) {
        tile_finish_row_s8(sums, N, row, o, t);
        return;
    }
    for (int j = 0; j < N; j++) {
        tile_finish_s8(sums + j * P, P, row, o + 16 * j, t);
    }
}

/* P rows, all outputs, N blocks at a time */
ALWAYS_INLINE void tile_rows_s8(const int P, const int N, ptrdiff_t row, const tile_source *t)
{
    int32_t o = 0;
    for (; o + 16 * (N - 1) < t->outs; o += 16 * N) {
        tile_block_s8(P, N, row, t, o);
    }
    for (; N > 1 && o < t->outs; o += 16) {
        tile_block_s8(P, 1, row, t, o);
    }
}

static inline void avx512_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row, const uint8_t *const *u, int32_t runs,
                                  int32_t k4, int32_t step, int32_t rows, const int8_t *w, const int32_t *b,
                                  const int32_t *c, int32_t outs, const requant *q)
{
    const tile_source t = {y, mask, y_row, u, runs, k4, step, w, b, c, outs, q};
    if (rows == 16 && outs <= 16) {
        tile_rows_s8(16, 1, 0, &t);
        return;
    }
    ptrdiff_t row = 0;
    for (; rows >= 8; rows -= 8, row += 8) {
        tile_rows_s8(8, 2, row, &t);
    }
    switch (rows) {
    case 7: tile_rows_s8(7, 2, row, &t); break;
    case 6: tile_rows_s8(6, 2, row, &t); break;
    case 5: tile_rows_s8(5, 2, row, &t); break;
    case 4: tile_rows_s8(4, 2, row, &t); break;
    case 3: tile_rows_s8(3, 2, row, &t); break;
    case 2: tile_rows_s8(2, 4, row, &t); break;
    case 1: tile_rows_s8(1, 8, row, &t); break;
    default: break;
    }
}
#define tile_any_s8 avx512_tile_s8

#endif
