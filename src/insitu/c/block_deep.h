/* conv2d_pairs_dx with as little room as it can do with: some outputs at a time, whose products are added to the sums of
 * the outputs before them. Integers, so the same bytes. See block_pairs.h.
 */
#ifndef INSITU_BLOCK_DEEP_H
#define INSITU_BLOCK_DEEP_H

#include "block_pairs.h"

/* outputs o..o+n-1 of some rows of pixels as rows of pairs */
ALWAYS_INLINE void block_deep_windows(int16_t *to, const void *g, const int8_t *ge, int32_t line, int32_t rows, int32_t o,
                                      int32_t n, const int16_t *share, int32_t drop, const conv2d_shape *s, int32_t bytes)
{
    const int32_t length = pairs_length(n), og = block_groups(s->o), pixels = rows * s->w;
    for (int32_t p = 0; p < pixels; p++) {
        const int8_t *e = ge + (line + p / s->w) * og;
        block_pairs_scaled(to + block_pairs_row(p, length), g, e + o / BLOCK_GROUP, (line * s->w + p) * s->o + o,
                           share + o, n, BLOCK_SHARE + drop + block_highest(e, og, 1), bytes);
    }
    for (int32_t p = pixels; p % PAIRS_PIXELS; p++) {
        block_pairs_nothing(to + block_pairs_row(p, length), length);
    }
}

/* what outputs o..o+n-1 add to all channels: acc[channel][pixel] */
static inline void block_deep_add(int32_t *acc, int16_t *weights, const int16_t *windows, int32_t *sums,
                                  const block_weights *w, int32_t o, int32_t n, int32_t pixels, const conv2d_shape *s)
{
    const int32_t length = pairs_length(n);
    for (int32_t c = 0; c < s->c; c += PAIRS_COLUMNS) {
        block_pairs_weights(weights, w, c, s->c - c, o, n, s);
        for (int32_t h = c; h < c + PAIRS_COLUMNS && h < s->c; h += PAIRS_OUTPUTS) {
            pairs_task t = {.w = weights + (h - c) * length, .x = windows};
            int32_t *one = acc + h * pixels, *two = h + 1 < s->c ? one + pixels : sums + PAIRS_SUMS;
            for (int32_t p = 0; p < pixels; p += PAIRS_SUMS) {
                const int32_t some = pixels - p < PAIRS_SUMS ? pixels - p : PAIRS_SUMS;
                block_pairs_sums(&t, some, length, sums);
                for (int32_t i = 0; i < some; i++) {
                    one[p + i] += sums[i];
                    two[h + 1 < s->c ? p + i : i] += h + 1 < s->c ? sums[PAIRS_SUMS + i] : 0;
                }
            }
        }
    }
}

ALWAYS_INLINE void block_deep_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const block_weights *w,
                                 const int16_t *share, int32_t k, int32_t drop, int32_t rows, int32_t depth,
                                 const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t og = block_groups(s->o), cg = block_groups(s->c), lines = s->n * s->h, most = rows * s->w;
    int32_t *sums = (int32_t *)scratch, *acc = sums + PAIRS_OUTPUTS * PAIRS_SUMS;
    int16_t *weights = (int16_t *)(void *)(acc + most * s->c), *windows = weights + PAIRS_COLUMNS * depth;
    for (int32_t line = 0; line < lines; line += rows) {
        const int32_t count = lines - line < rows ? lines - line : rows, pixels = count * s->w;
        for (int32_t i = 0; i < pixels * s->c; i++) {
            acc[i] = 0;
        }
        for (int32_t o = 0; o < s->o; o += depth) {
            const int32_t n = s->o - o < depth ? s->o - o : depth;
            block_deep_windows(windows, g, ge, line, count, o, n, share, drop, s, bytes);
            block_deep_add(acc, weights, windows, sums, w, o, n, pixels, s);
        }
        for (int32_t c = 0; c < s->c; c += BLOCK_GROUP) {
            block_runs runs = {.x = acc + c * pixels, .piece = pixels};
            for (int32_t j = 0; j < BLOCK_GROUP; j++) {
                runs.where[j] = j * pixels;
            }
            for (int32_t r = line; r < line + count; r++) {
                const int32_t exponent = block_exponent(block_highest(ge + r * og, og, 1), bytes) + k + drop;
                block_store_runs(dx, dxe + r * cg + c / BLOCK_GROUP, r * s->w * s->c + c, s->c, &runs,
                                 (r - line) * s->w, s->w, block_width(c, s->c), exponent, bytes);
            }
        }
    }
}

#endif
