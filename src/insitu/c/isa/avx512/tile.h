/* tile.h for x86 with AVX-512 and VNNI: blocks of outputs stay in registers. Equal to scalar_tile_s8 in every bit.
 *
 * Blocks of four rows or more, whose outputs are ready, are requantised from registers, four vectors at a time: see fours.h.
 * Other sums go through memory to be requantised, in one place for blocks of all sizes: that takes a few instructions
 * more per block, and a tenth of the code.
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
    const tile_ready *ready;
} tile_source;

/* the sums of sixteen outputs from o on before the first product */
ALWAYS_INLINE __m512i tile_start(__mmask16 k, int32_t o, const int32_t *b, const int32_t *c)
{
    const __m512i start = _mm512_maskz_loadu_epi32(k, c + o);
    return b ? _mm512_add_epi32(start, _mm512_maskz_loadu_epi32(k, b + o)) : start;
}

/* up to sixteen outputs from o on, for sums of k products: they are possible if they stay within 2^30 */
ALWAYS_INLINE void tile_prepare(tile_outputs *to, int32_t o, int64_t k, const int32_t *b, const int32_t *c,
                                int32_t outs, const requant *q)
{
    const __m512i start = tile_start(lanes16(outs - o), o, b, c);
    const __mmask16 far = _mm512_cmpge_epu32_mask(_mm512_abs_epi32(start), _mm512_set1_epi32(1 << 29));
    fours_prepare(to, q, o, lanes16(outs - o));
    to->possible = to->possible && far == 0 && k <= 1 << 14;
    _mm512_storeu_si512(to->start, _mm512_add_epi32(start, _mm512_set1_epi32(FOURS_RAISED)));
}

/* as far as there is room, and up to the first that is not possible */
static inline void avx512_tile_ready_s8(tile_ready *ready, int32_t rows, int32_t k, const int32_t *b, const int32_t *c,
                                        int32_t outs, const requant *q)
{
    int32_t j = 0;
    for (; rows >= 4 && j < TILE_READY && 16 * j < outs; j++) {
        tile_prepare(ready->at + j, 16 * j, k, b, c, outs, q);
        if (!ready->at[j].possible) {
            break;
        }
    }
    ready->blocks = j;
}
#define tile_any_ready_s8 avx512_tile_ready_s8

/* mask of `rows` rows from this row on, sixteen outputs from o on */
APART void tile_masks_s8(const __m512i *sums, int32_t rows, ptrdiff_t row, int32_t o, const tile_source *t)
{
    const __mmask16 k = lanes16(t->outs - o);
    const requant_lanes r = requant_load(t->q, o, k);
    requant_masks(rows, mask_row(t->mask, (int32_t)row, t->y_row), (t->y_row + 7) / 8, k, sums, 1, &r);
}

/* y and mask of the same rows */
APART void tile_finish_s8(const __m512i *sums, int32_t rows, ptrdiff_t row, int32_t o, const tile_source *t)
{
    const __mmask16 k = lanes16(t->outs - o);
    const requant_lanes r = requant_load(t->q, o, k);
    int8_t *y = t->y + row * t->y_row + o;
    for (int32_t p = 0; p < rows; p++) {
        requant_store(1, y + p * (ptrdiff_t)t->y_row, 0, k, sums + p, 1, &r);
    }
    if (t->mask) {
        tile_masks_s8(sums, rows, row, o, t);
    }
}

/* to memory, lowered */
ALWAYS_INLINE void copy_sums(const int n, __m512i *to, const __m512i *acc, int32_t by)
{
    UNROLL
    for (int i = 0; i < n; i++) {
        to[i] = _mm512_sub_epi32(acc[i], _mm512_set1_epi32(by));
    }
}

/* four sums of the P from p on; after the last, the last again */
ALWAYS_INLINE void four_of(__m512i *four, const int P, const int p, const __m512i *u)
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        four[i] = u[p + i < P ? p + i : P - 1];
    }
}

/* y of P rows, whose sums are raised, sixteen outputs */
ALWAYS_INLINE void tile_fours_s8(const int away, const int P, const __m512i *u, int8_t *y, ptrdiff_t step,
                                 const tile_outputs *g)
{
    const requant_fours f = fours_load(g);
    UNROLL
    for (int p = 0; p < P; p += 4) {
        __m512i four[4];
        four_of(four, P, p, u);
        store_fours(P - p < 4 ? P - p : 4, y + p * step, step, requant_bytes(away, four, &f));
    }
}

/* the same of the outputs k, one row at a time */
APART void tile_some_s8(const __m512i *u, int32_t rows, int8_t *y, ptrdiff_t step, __mmask16 k, const tile_outputs *g)
{
    const requant_fours f = fours_load(g);
    for (int32_t p = 0; p < rows; p++) {
        const __m512i four[4] = {u[p], u[p], u[p], u[p]};
        const __m512i v = g->away ? requant_bytes(1, four, &f) : requant_bytes(0, four, &f);
        _mm_mask_storeu_epi8(y + p * step, k, _mm512_castsi512_si128(v));
    }
}

/* y of P rows by N blocks whose sums are raised */
ALWAYS_INLINE void tile_quick_s8(const int P, const int N, const __m512i *u, ptrdiff_t row, int32_t o,
                                 const tile_source *t, const tile_outputs *g)
{
    int8_t *y = t->y + row * t->y_row + o;
    UNROLL
    for (int j = 0; j < N; j++) {
        const __mmask16 k = lanes16(t->outs - o - 16 * j);
        if (k != 0xffff) {
            __m512i some[16];
            copy_sums(P, some, u + j * P, 0);
            tile_some_s8(some, P, y + 16 * j, t->y_row, k, g + j);
        } else if (g->away) {
            tile_fours_s8(1, P, u + j * P, y + 16 * j, t->y_row, g + j);
        } else {
            tile_fours_s8(0, P, u + j * P, y + 16 * j, t->y_row, g + j);
        }
    }
}

/* y of one row, `blocks` times sixteen outputs from o on that share a multiplier: it is prepared once. Results are stored
 * 64 at a time, as the next layer loads them: smaller stores would have to reach the cache first */
APART void tile_finish_row_s8(const __m512i *sums, int32_t blocks, int32_t o, const tile_source *t)
{
    const requant_lanes r = requant_load(t->q, o, lanes16(t->outs - o));
    int8_t *y = t->y;
    int32_t j = 0;
    for (; !r.scalar && j + 4 <= blocks && o + 64 <= t->outs; j += 4, o += 64) {
        _mm512_storeu_si512(y + o, r.litert ? requant_four(1, sums + j, &r) : requant_four(0, sums + j, &r));
    }
    for (; j < blocks; j++, o += 16) {
        requant_store(1, y + o, 0, lanes16(t->outs - o), sums + j, 1, &r);
    }
}

/* what is ready of N blocks of outputs from o on, or prepared here beyond what there is room for; or null */
ALWAYS_INLINE const tile_outputs *tile_quick_outputs(const int N, tile_outputs *own, int32_t o, const tile_source *t)
{
    if (o / 16 + N <= t->ready->blocks) {
        return t->ready->at + o / 16;
    }
    if (t->ready->blocks < TILE_READY) {
        return NULL;
    }
    int possible = 1;
    for (int j = 0; j < N; j++) {
        tile_prepare(own + j, o + 16 * j, (int64_t)t->runs * t->k4 * 4, t->b, t->c, t->outs, t->q);
        possible = possible && own[j].possible;
    }
    return possible ? own : NULL;
}

/* P rows by N blocks of sixteen outputs from o on, all sums in registers */
ALWAYS_INLINE void tile_block_s8(const int P, const int N, ptrdiff_t row, const tile_source *t, int32_t o)
{
    __m512i acc[8 * 4], sums[8 * 4];
    tile_outputs own[8];
    const tile_outputs *g = NULL;
    if (P >= 4) {
        g = tile_quick_outputs(N, own, o, t);
    }
    UNROLL
    for (int j = 0; j < N; j++) {
        const __mmask16 k = lanes16(t->outs - o - 16 * j);
        const __m512i start = g ? _mm512_loadu_si512(g[j].start) : tile_start(k, o + 16 * j, t->b, t->c);
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
    if (P >= 4 && g) {
        tile_quick_s8(P, N, acc, row, o, t, g);
    }
    if (P >= 4 && g && !t->mask) {
        return;
    }
    copy_sums(P * N, sums, acc, g ? FOURS_RAISED : 0);
    for (int j = 0; j < N; j++) {
        (P >= 4 && g ? tile_masks_s8 : tile_finish_s8)(sums + j * P, P, row, o + 16 * j, t);
    }
}

/* the sums of one row of one run, sixteen outputs from o on: four chains, and weights read as they lie in memory. Several
 * blocks at once would share the inputs, but read as many places of a matrix that is often far away */
ALWAYS_INLINE __m512i tile_row_sums(int32_t o, const tile_source *t)
{
    const __m512i zero = _mm512_setzero_si512();
    const int8_t *w = t->w + o / 16 * (ptrdiff_t)t->k4 * 64;
    const uint8_t *u = t->u[0];
    __m512i acc[4] = {tile_start(lanes16(t->outs - o), o, t->b, t->c), zero, zero, zero};
    int32_t k = 0;
    for (; k + 4 <= t->k4; k += 4, w += 4 * 64, u += 4 * 4) {
        const __m512i x = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)u));
        acc[0] = _mm512_dpbusd_epi32(acc[0], _mm512_shuffle_epi32(x, 0x00), _mm512_loadu_si512(w));
        acc[1] = _mm512_dpbusd_epi32(acc[1], _mm512_shuffle_epi32(x, 0x55), _mm512_loadu_si512(w + 64));
        acc[2] = _mm512_dpbusd_epi32(acc[2], _mm512_shuffle_epi32(x, 0xaa), _mm512_loadu_si512(w + 128));
        acc[3] = _mm512_dpbusd_epi32(acc[3], _mm512_shuffle_epi32(x, 0xff), _mm512_loadu_si512(w + 192));
    }
    for (; k < t->k4; k++, w += 64, u += 4) {
        int32_t four;
        __builtin_memcpy(&four, u, 4);
        acc[0] = _mm512_dpbusd_epi32(acc[0], _mm512_set1_epi32(four), _mm512_loadu_si512(w));
    }
    return _mm512_add_epi32(_mm512_add_epi32(acc[0], acc[1]), _mm512_add_epi32(acc[2], acc[3]));
}

/* one row of one run whose outputs share a multiplier */
APART void tile_row_s8(const tile_source *t)
{
    __m512i sums[8];
    for (int32_t o = 0; o < t->outs; o += 16 * 8) {
        const int32_t blocks = t->outs - o >= 16 * 8 ? 8 : (t->outs - o + 15) / 16;
        for (int32_t j = 0; j < blocks; j++) {
            sums[j] = tile_row_sums(o + 16 * j, t);
        }
        tile_finish_row_s8(sums, blocks, o, t);
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

/* sixteen rows by up to sixteen outputs */
APART void tile_sixteen_s8(const tile_source *t)
{
    tile_block_s8(16, 1, 0, t, 0);
}

static inline void avx512_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row, const uint8_t *const *u, int32_t runs,
                                  int32_t k4, int32_t step, int32_t rows, const int8_t *w, const int32_t *b,
                                  const int32_t *c, int32_t outs, const requant *q, const tile_ready *ready)
{
    const tile_source t = {y, mask, y_row, u, runs, k4, step, w, b, c, outs, q, ready};
    if (rows == 16 && outs <= 16) {
        tile_sixteen_s8(&t);
        return;
    }
    if (rows == 1 && runs == 1 && !q->step && !mask) {
        tile_row_s8(&t);
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
