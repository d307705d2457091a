/* Gradients of inputs of 1x1 convolutions and linear layers in block floating numbers by products of pairs: the sums of
 * block_conv.h in another order, so the same integers. See isa/pairs.h, isa/columns.h and isa/mantissas.h.
 */
#ifndef INSITU_BLOCK_PAIRS_H
#define INSITU_BLOCK_PAIRS_H

#include "kernels/conv/block_conv.h"
#include "kernels/conv/block_runs.h"
#include "kernels/shapes.h"

/* the sums of up to PAIRS_SUMS rows at t->x with two rows of weights, which t->w begins */
static inline void block_pairs_sums(pairs_task *t, int32_t pixels, int32_t length, int32_t *sums)
{
    t->w_end = t->w + PAIRS_OUTPUTS * length;
    t->x_end = t->x + (pixels + PAIRS_PIXELS - 1) / PAIRS_PIXELS * PAIRS_PIXELS * length;
    t->y = (int8_t *)(void *)sums;
    pairs_sums(t);
    t->x = t->x_end;
}

/* Sums of one group of channels, as written by pairs_sums: in pieces of up to PAIRS_SUMS pixels, two channels side by
 * side. Few pixels share that room: `pitch` pixels, a power of two, per pair of channels. */
static inline int32_t block_pairs_pitch(int32_t pixels)
{
    int32_t pitch = PAIRS_SUMS / (BLOCK_GROUP / 2);
    while (pitch < pixels && pitch < PAIRS_SUMS) {
        pitch *= 2;
    }
    return pitch;
}

static inline int32_t block_pairs_at(int32_t channel, int32_t pitch)
{
    const int32_t pair = channel / 2 * pitch;
    return pair / PAIRS_SUMS * 2 * PAIRS_SUMS + pair % PAIRS_SUMS + channel % 2 * PAIRS_SUMS;
}

static inline block_runs block_pairs_runs(const int32_t *acc, int32_t pixels)
{
    block_runs runs = {.x = acc, .piece = PAIRS_SUMS};
    for (int32_t k = 0; k < BLOCK_GROUP; k++) {
        runs.where[k] = block_pairs_at(k, block_pairs_pitch(pixels));
    }
    return runs;
}

/* where row p begins */
static inline int32_t block_pairs_row(int32_t p, int32_t length)
{
    return p / PAIRS_PIXELS * PAIRS_PIXELS * length + p % PAIRS_PIXELS * 2;
}

/* `o` numbers of g from `at` on, times share / 2^(d - e), as row r of four rows of pairs; zeros up to a multiple of
 * four */
ALWAYS_INLINE void block_pairs_scaled(int16_t *to, const void *g, const int8_t *ge, int32_t at, const int16_t *share,
                                      int32_t o, int32_t d, int32_t bytes)
{
    for (int32_t i = 0; i < pairs_length(o); i++) {
        const int32_t v = i < o ? block_half_up(block_get(g, at + i, bytes) * share[i], d - ge[i / BLOCK_GROUP]) : 0;
        to[pairs_place(i, 0, PAIRS_PIXELS)] = (int16_t)v;
    }
}

/* four rows of one row of pixels, o a multiple of four */
ALWAYS_INLINE void block_pairs_scaled4(int16_t *to, const void *g, const int8_t *ge, int32_t at, const int16_t *share,
                                       int32_t o, int32_t d, int32_t bytes)
{
    for (int32_t i = 0; i < o; i += BLOCK_GROUP, to += BLOCK_GROUP * PAIRS_PIXELS) {
        mantissas_pairs(to, g, at + i, o, share + i, d - *ge++, block_width(i, o), bytes);
    }
}

/* a missing row */
static inline void block_pairs_nothing(int16_t *to, int32_t length)
{
    for (int32_t i = 0; i < length; i++) {
        to[pairs_place(i, 0, PAIRS_PIXELS)] = 0;
    }
}

/* some rows of pixels of g as rows of pairs, with zeros up to a multiple of four rows */
ALWAYS_INLINE void block_pairs_windows(int16_t *to, const void *g, const int8_t *ge, int32_t line, int32_t rows,
                                       const int16_t *share, int32_t drop, const conv2d_shape *s, int32_t bytes)
{
    const int32_t length = pairs_length(s->o), og = block_groups(s->o), pixels = rows * s->w;
    const int32_t fours = s->o % 4 == 0 && s->w % PAIRS_PIXELS == 0;
    for (int32_t p = 0; p < pixels; p += fours ? PAIRS_PIXELS : 1) {
        const int8_t *e = ge + (line + p / s->w) * og;
        const int32_t d = BLOCK_SHARE + drop + block_highest(e, og, 1), at = (line * s->w + p) * s->o;
        if (fours) {
            block_pairs_scaled4(to + p * length, g, e, at, share, s->o, d, bytes);
        } else {
            block_pairs_scaled(to + block_pairs_row(p, length), g, e, at, share, s->o, d, bytes);
        }
    }
    for (int32_t p = pixels; p % PAIRS_PIXELS; p++) {
        block_pairs_nothing(to + block_pairs_row(p, length), length);
    }
}

/* A weight: all of it at w, or, if `which` is given, `count` of its columns at w and the others at fixed. Column c is
 * which[c] of w or, if that is negative, -1 - which[c] of fixed. Without `which`, a count is the row length of a larger
 * weight, of which these are some columns. */
typedef struct {
    const int8_t *w, *fixed;
    const int32_t *which;
    int32_t count;
} block_weights;

/* columns c.. of a weight, up to four, for outputs o..o+n-1, as two tasks' weights */
static inline void block_pairs_weights(int16_t *to, const block_weights *w, int32_t c, int32_t cols, int32_t o, int32_t n,
                                       const conv2d_shape *s)
{
    const int32_t there = cols < PAIRS_COLUMNS ? cols : PAIRS_COLUMNS, two = PAIRS_OUTPUTS * pairs_length(n);
    if (!w->which) {
        const int32_t row = w->count ? w->count : s->c;
        pairs_columns(to, w->w + o * row + c, row, there, 0, n);
        return;
    }
    for (int32_t j = 0; j < there; j++) {
        const int32_t from = w->which[c + j], row = from >= 0 ? w->count : s->c - w->count;
        pairs_column(to + j / PAIRS_OUTPUTS * two, j % PAIRS_OUTPUTS,
                     (from >= 0 ? w->w + from : w->fixed + (-1 - from)) + o * row, row, 0, n);
    }
    if (there % PAIRS_OUTPUTS) { /* its sums are not used */
        pairs_column(to + there / PAIRS_OUTPUTS * two, 1, w->w, 0, 0, n);
    }
}

/* the sums of all pixels with one group of n channels of dx, from c on */
static inline void block_pairs_group(int32_t *acc, int16_t *weights, const int16_t *windows, const block_weights *w,
                                     int32_t c, int32_t n, int32_t pixels, const int32_t *where, const conv2d_shape *s)
{
    const int32_t length = pairs_length(s->o);
    pairs_task t = {.w = weights};
    for (int32_t j = 0; j < n; j += PAIRS_COLUMNS) {
        block_pairs_weights(weights, w, c + j, n - j, 0, s->o, s);
        for (int32_t h = 0; h < PAIRS_COLUMNS && j + h < n; h += PAIRS_OUTPUTS) {
            t.w = weights + h * length;
            t.x = windows;
            for (int32_t p = 0; p < pixels; p += PAIRS_SUMS) {
                block_pairs_sums(&t, pixels - p < PAIRS_SUMS ? pixels - p : PAIRS_SUMS, length,
                                 acc + p * BLOCK_GROUP + where[j + h]);
            }
        }
    }
}

ALWAYS_INLINE void block_pairs_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const block_weights *w,
                                  const int16_t *share, int32_t k, int32_t drop, int32_t rows, const conv2d_shape *s,
                                  void *scratch, int32_t bytes)
{
    const int32_t length = pairs_length(s->o), og = block_groups(s->o), cg = block_groups(s->c), lines = s->n * s->h;
    const int32_t pitch = block_pairs_pitch(rows * s->w);
    int32_t *acc = (int32_t *)scratch;
    int16_t *weights = (int16_t *)(void *)(acc + BLOCK_GROUP * pitch * ((rows * s->w + pitch - 1) / pitch));
    int16_t *windows = weights + PAIRS_COLUMNS * length;
    const block_runs sums = block_pairs_runs(acc, rows * s->w);
    for (int32_t line = 0; line < lines; line += rows) {
        const int32_t count = lines - line < rows ? lines - line : rows;
        block_pairs_windows(windows, g, ge, line, count, share, drop, s, bytes);
        for (int32_t c = 0; c < s->c; c += BLOCK_GROUP) {
            block_pairs_group(acc, weights, windows, w, c, block_width(c, s->c), count * s->w, sums.where, s);
            for (int32_t r = line; r < line + count; r++) {
                const int32_t exponent = block_exponent(block_highest(ge + r * og, og, 1), bytes) + k + drop;
                block_store_runs(dx, dxe + r * cg + c / BLOCK_GROUP, r * s->w * s->c + c, s->c, &sums,
                                 (r - line) * s->w, s->w, block_width(c, s->c), exponent, bytes);
            }
        }
    }
}

#endif
