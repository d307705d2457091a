/* Block floating gradients of 1x1 convolutions and linear layers by products of pairs: the sums of block_conv.h in
 * another order, so the same integers. See isa/pairs.h and isa/columns.h.
 */
#ifndef INSITU_BLOCK_PAIRS_H
#define INSITU_BLOCK_PAIRS_H

#include "block.h"
#include "isa/columns.h"
#include "shapes.h"

/* the sums of up to PAIRS_SUMS rows at t->x with two rows of weights, which t->w begins */
static inline void block_pairs_sums(pairs_task *t, int32_t pixels, int32_t length, int32_t *sums)
{
    t->w_end = t->w + PAIRS_OUTPUTS * length;
    t->x_end = t->x + (pixels + PAIRS_PIXELS - 1) / PAIRS_PIXELS * PAIRS_PIXELS * length;
    t->y = (int8_t *)(void *)sums;
    pairs_sums(t);
    t->x = t->x_end;
}

/* acc[p * row + j] = those sums for any number of pixels; the second j may not be there */
static inline void block_pairs_put(int32_t *acc, pairs_task *t, int32_t pixels, int32_t cols, int32_t row,
                                   int32_t length, int32_t *sums)
{
    const int32_t second = cols >= PAIRS_OUTPUTS;
    for (int32_t p = 0; p < pixels; p += PAIRS_SUMS) {
        const int32_t some = pixels - p < PAIRS_SUMS ? pixels - p : PAIRS_SUMS;
        block_pairs_sums(t, some, length, sums);
        for (int32_t i = 0; i < some; i++, acc += row) {
            acc[0] = sums[i];
            if (second) {
                acc[1] = sums[PAIRS_SUMS + i];
            }
        }
    }
}

/* where row p begins */
static inline int32_t block_pairs_row(int32_t p, int32_t length)
{
    return p / PAIRS_PIXELS * PAIRS_PIXELS * length + p % PAIRS_PIXELS * 2;
}

/* `o` numbers of g from `at` on, times share / 2^d, as row r of four rows of pairs; zeros up to a multiple of four */
ALWAYS_INLINE void block_pairs_scaled(int16_t *to, const void *g, int32_t at, const uint16_t *share, int32_t o,
                                      int32_t d, int32_t bytes)
{
    int32_t i = 0;
    for (; i + 4 <= o; i += 4, at += 4, share += 4, to += 4 * PAIRS_PIXELS) {
        to[0] = (int16_t)block_half_up(block_get(g, at, bytes) * share[0], d);
        to[1] = (int16_t)block_half_up(block_get(g, at + 2, bytes) * share[2], d);
        to[2 * PAIRS_PIXELS] = (int16_t)block_half_up(block_get(g, at + 1, bytes) * share[1], d);
        to[2 * PAIRS_PIXELS + 1] = (int16_t)block_half_up(block_get(g, at + 3, bytes) * share[3], d);
    }
    for (int32_t j = 0; i < o && j < 4; j++) {
        const int32_t v = i + j < o ? block_half_up(block_get(g, at + j, bytes) * share[j], d) : 0;
        to[pairs_place(j, 0, PAIRS_PIXELS)] = (int16_t)v;
    }
}

/* a row that is not there */
static inline void block_pairs_nothing(int16_t *to, int32_t length)
{
    for (int32_t i = 0; i < length; i++) {
        to[pairs_place(i, 0, PAIRS_PIXELS)] = 0;
    }
}

ALWAYS_INLINE void block_pairs_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const int8_t *w,
                                  const uint16_t *share, int32_t k, int32_t drop, int32_t rows, const conv2d_shape *s,
                                  void *scratch, int32_t bytes)
{
    const int32_t length = pairs_length(s->o), lines = s->n * s->h, line_size = s->w * s->c;
    int32_t *sums = (int32_t *)scratch, *acc = sums + PAIRS_OUTPUTS * PAIRS_SUMS;
    int16_t *weights = (int16_t *)(void *)(acc + rows * line_size), *windows = weights + PAIRS_COLUMNS * length;
    for (int32_t line = 0; line < lines; line += rows) {
        const int32_t count = lines - line < rows ? lines - line : rows, pixels = count * s->w;
        for (int32_t p = 0; p < pixels; p++) {
            block_pairs_scaled(windows + block_pairs_row(p, length), g, (line * s->w + p) * s->o, share, s->o,
                               BLOCK_SHARE + drop, bytes);
        }
        for (int32_t p = pixels; p % PAIRS_PIXELS; p++) {
            block_pairs_nothing(windows + block_pairs_row(p, length), length);
        }
        for (int32_t j = 0; j < s->c; j += PAIRS_COLUMNS) {
            pairs_columns(weights, w + j, s->c, s->c - j < PAIRS_COLUMNS ? s->c - j : PAIRS_COLUMNS, 0, s->o);
            for (int32_t h = 0; h < PAIRS_COLUMNS && j + h < s->c; h += PAIRS_OUTPUTS) {
                pairs_task t = {.w = weights + h * length, .x = windows};
                block_pairs_put(acc + j + h, &t, pixels, s->c - j - h, s->c, length, sums);
            }
        }
        for (int32_t r = line; r < line + count; r++) {
            block_store(dx, dxe + r, r * line_size, acc + (r - line) * line_size, line_size,
                        block_exponent(ge[r], bytes) + k + drop, bytes);
        }
    }
}

/* row `o` of g turned: its numbers for `pixels` pixels, aligned to `highest` and shortened by drop bits, as row r of
 * four; zeros up to a multiple of four. `at` is the first pixel, w pixels are a block. */
ALWAYS_INLINE void block_pairs_turned(int16_t *to, const void *g, const int8_t *ge, int32_t at, int32_t o, int32_t pixels,
                                      int32_t outputs, int32_t w, int32_t highest, int32_t drop, int32_t bytes)
{
    int32_t line = at / w, left = w - at % w, d = drop + highest - ge[line];
    for (int32_t i = 0; i < pairs_length(pixels); i++) {
        int32_t v = 0;
        if (i < pixels) {
            if (left-- == 0) {
                left = w - 1;
                d = drop + highest - ge[++line];
            }
            v = block_get(g, (at + i) * outputs + o, bytes);
            v = d ? block_half_up(v, d) : v;
        }
        to[pairs_place(i, 0, PAIRS_PIXELS)] = (int16_t)v;
    }
}

/* the chosen channels of x for some pixels, turned: pairs of rows, minus zero */
static inline void block_pairs_channels(int16_t *to, const int8_t *x, const int32_t *channels, int32_t count,
                                        int32_t zero, int32_t c, int32_t pixels)
{
    const int32_t two = PAIRS_OUTPUTS * pairs_length(pixels);
    for (int32_t k = 0; !channels && k < count; k += PAIRS_COLUMNS, to += 2 * two) {
        pairs_columns(to, x + k, c, count - k < PAIRS_COLUMNS ? count - k : PAIRS_COLUMNS, zero, pixels);
    }
    for (int32_t k = 0; channels && k < count; k++) {
        pairs_column(to + k / PAIRS_OUTPUTS * two, k % PAIRS_OUTPUTS, x + channels[k], c, zero, pixels);
    }
}

/* dw[r * count + 0, 1] += the sums of `outputs` rows of g with two channels; the second may not be there */
static inline void block_pairs_add(int32_t *dw, const int32_t *sums, int32_t outputs, int32_t cols, int32_t count)
{
    for (int32_t r = 0; r < outputs; r++, dw += count) {
        dw[0] += sums[r];
        if (cols >= PAIRS_OUTPUTS) {
            dw[1] += sums[PAIRS_SUMS + r];
        }
    }
}

enum { PAIRS_TURNED = 16 }; /* rows of g at a time */

/* what some pixels, from `at` on, give to all of dw; x begins with them */
ALWAYS_INLINE void block_pairs_dw_piece(int32_t *dw, const void *g, const int8_t *ge, const int8_t *x,
                                        const int32_t *channels, int32_t count, int32_t zero, int32_t highest,
                                        int32_t drop, int32_t at, int32_t pixels, const conv2d_shape *s, void *scratch,
                                        int32_t bytes)
{
    const int32_t length = pairs_length(pixels);
    int32_t *sums = (int32_t *)scratch;
    int16_t *rows = (int16_t *)(void *)(sums + PAIRS_OUTPUTS * PAIRS_SUMS), *inputs = rows + PAIRS_TURNED * length;
    block_pairs_channels(inputs, x, channels, count, zero, s->c, pixels);
    for (int32_t o = 0; o < s->o; o += PAIRS_TURNED) {
        const int32_t some = s->o - o < PAIRS_TURNED ? s->o - o : PAIRS_TURNED;
        for (int32_t r = 0; r < some; r++) {
            block_pairs_turned(rows + block_pairs_row(r, length), g, ge, at, o + r, pixels, s->o, s->ow, highest, drop,
                               bytes);
        }
        for (int32_t k = 0; k < count; k += PAIRS_OUTPUTS) {
            pairs_task t = {.w = inputs + k * length, .x = rows};
            block_pairs_sums(&t, some, length, sums);
            block_pairs_add(dw + o * count + k, sums, some, count - k, count);
        }
    }
}

ALWAYS_INLINE void block_pairs_dw(int32_t *dw, int8_t *dwe, const void *g, const int8_t *ge, const int8_t *x,
                                  const int32_t *channels, int32_t count, int32_t zero, int32_t drop, int32_t piece,
                                  const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t pixels = s->n * s->h * s->w;
    const int32_t highest = block_highest(ge, s->n * s->oh);
    *dwe = block_sum_exponent(block_exponent(highest, bytes) + drop);
    for (int32_t i = 0; i < s->o * count; i++) {
        dw[i] = 0;
    }
    for (int32_t at = 0; at < pixels; at += piece) {
        block_pairs_dw_piece(dw, g, ge, x + at * s->c, channels, count, zero, highest, drop, at,
                             pixels - at < piece ? pixels - at : piece, s, scratch, bytes);
    }
}

#endif
