/* conv2d_pairs_dx some outputs at a time, whose products are added to the sums of the previous outputs. Integers, so
 * the same bytes. The gradient need not exist for more than these outputs, if the exponents of all are known. See
 * block_pairs.h.
 */
#ifndef INSITU_BLOCK_DEEP_H
#define INSITU_BLOCK_DEEP_H

#include "kernels/conv/block_pairs.h"

/* Some outputs of a gradient: number `at` of g is the first of them, the next pixel's are `step` numbers on. Their
 * exponents are at own, `owned` numbers from row to row, those of all outputs at all. */
typedef struct {
    const void *g;
    const int8_t *own, *all;
    int32_t at, step, owned;
} block_some;

/* n of these outputs, of some rows of pixels, as rows of pairs */
ALWAYS_INLINE void block_deep_windows(int16_t *to, const block_some *from, int32_t rows, int32_t n,
                                      const int16_t *share, int32_t drop, const conv2d_shape *s, int32_t bytes)
{
    const int32_t length = pairs_length(n), og = block_groups(s->o), pixels = rows * s->w;
    const int32_t fours = n % 4 == 0 && s->w % PAIRS_PIXELS == 0;
    for (int32_t p = 0; p < pixels; p += fours ? PAIRS_PIXELS : 1) {
        const int8_t *own = from->own + p / s->w * from->owned;
        const int32_t d = BLOCK_SHARE + drop + block_highest(from->all + p / s->w * og, og, 1);
        const int32_t at = from->at + p * from->step;
        for (int32_t i = 0; fours && i < n; i += BLOCK_GROUP) {
            mantissas_pairs(to + p * length + i * PAIRS_PIXELS, from->g, at + i, from->step, share + i,
                            d - own[i / BLOCK_GROUP], block_width(i, n), bytes);
        }
        if (!fours) {
            block_pairs_scaled(to + block_pairs_row(p, length), from->g, own, at, share, n, d, bytes);
        }
    }
    for (int32_t p = pixels; p % PAIRS_PIXELS; p++) {
        block_pairs_nothing(to + block_pairs_row(p, length), length);
    }
}

/* sums of some pixels of a channel added to acc, which has `row` of them side by side and the next ones `apart` on */
static inline void block_deep_put(int32_t *acc, int32_t at, int32_t row, int32_t apart, const int32_t *sums, int32_t n)
{
    acc += at / row * apart;
    for (int32_t column = at % row; n > 0; column = 0, acc += apart) {
        for (; column + 4 <= row && n >= 4; column += 4, sums += 4, n -= 4) {
            acc[column] += sums[0];
            acc[column + 1] += sums[1];
            acc[column + 2] += sums[2];
            acc[column + 3] += sums[3];
        }
        for (; column < row && n > 0; column++, n--) {
            acc[column] += *sums++;
        }
    }
}

/* the contribution of the first n outputs of a weight to all channels of some rows: acc[row][channel][pixel] */
static inline void block_deep_add(int32_t *acc, int16_t *weights, const int16_t *windows, int32_t *sums,
                                  const block_weights *w, int32_t n, int32_t pixels, const conv2d_shape *s)
{
    const int32_t length = pairs_length(n), row = s->w, apart = s->c * row;
    for (int32_t c = 0; c < s->c; c += PAIRS_COLUMNS) {
        block_pairs_weights(weights, w, c, s->c - c, 0, n, s);
        for (int32_t h = c; h < c + PAIRS_COLUMNS && h < s->c; h += PAIRS_OUTPUTS) {
            pairs_task t = {.w = weights + (h - c) * length, .x = windows};
            for (int32_t p = 0; p < pixels; p += PAIRS_SUMS) {
                const int32_t some = pixels - p < PAIRS_SUMS ? pixels - p : PAIRS_SUMS;
                block_pairs_sums(&t, some, length, sums);
                block_deep_put(acc + h * row, p, row, apart, sums, some);
                if (h + 1 < s->c) {
                    block_deep_put(acc + (h + 1) * row, p, row, apart, sums + PAIRS_SUMS, some);
                }
            }
        }
    }
}

/* Sums acc[row][channel][pixel] become blocks, which may overwrite them if there is room for a copy of a row. ge has og
 * exponents per row of the gradient they come from. */
ALWAYS_INLINE void block_deep_store(void *dx, int8_t *dxe, const int32_t *acc, const int8_t *ge, int32_t og, int32_t by,
                                    int32_t rows, int32_t pixels, int32_t channels, int32_t *copy, int32_t bytes)
{
    block_runs runs = {.piece = pixels};
    for (int32_t j = 0; j < BLOCK_GROUP; j++) {
        runs.where[j] = j * pixels;
    }
    for (int32_t r = 0; r < rows; r++, ge += og, acc += pixels * channels) {
        for (int32_t i = 0; copy && i < pixels * channels; i++) {
            copy[i] = acc[i];
        }
        for (int32_t c = 0; c < channels; c += BLOCK_GROUP) {
            runs.x = (copy ? copy : acc) + c * pixels;
            block_store_runs(dx, dxe++, r * pixels * channels + c, channels, &runs, 0, pixels,
                             block_width(c, channels), block_exponent(block_highest(ge, og, 1), bytes) + by, bytes);
        }
    }
}

/* Outputs first.., n of them, into the sums of all pixels, `rows` rows of pixels at a time. */
ALWAYS_INLINE void block_sum_dx(int32_t *acc, const block_some *from, const block_weights *w, const int16_t *share,
                                int32_t drop, int32_t first, int32_t n, int32_t rows, const conv2d_shape *s,
                                void *scratch, int32_t bytes)
{
    const int32_t lines = s->n * s->h, og = block_groups(s->o);
    int32_t *sums = (int32_t *)scratch;
    int16_t *weights = (int16_t *)(void *)(sums + PAIRS_OUTPUTS * PAIRS_SUMS);
    int16_t *windows = weights + PAIRS_COLUMNS * pairs_length(n);
    for (int32_t i = 0; first == 0 && i < lines * s->w * s->c; i++) {
        acc[i] = 0;
    }
    for (int32_t line = 0; line < lines; line += rows) {
        const int32_t count = lines - line < rows ? lines - line : rows;
        block_some some = *from;
        some.own += line * from->owned;
        some.all += line * og;
        some.at += line * s->w * from->step;
        block_deep_windows(windows, &some, count, n, share, drop, s, bytes);
        block_deep_add(acc + line * s->w * s->c, weights, windows, sums, w, n, count * s->w, s);
    }
}

#endif
