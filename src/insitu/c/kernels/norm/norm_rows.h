/* Batch norm over x[rows,c], channels last, on vectors: sums down columns stay in registers, some channels at a time.
 *
 * A mean and a variance are found in blocks of rows, which are read once: the sums of the differences to the mean of all
 * rows before, and of their squares. That loses fewer digits than long sums do. Only the first block is read twice.
 */
#ifndef INSITU_NORM_ROWS_H
#define INSITU_NORM_ROWS_H

#include "isa/one_lane.h"

enum { NORM_BLOCK = 64, NORM_MOST = 4 }; /* rows of a block; vectors of channels at a time */

/* some channels of all rows: V vectors or, if V is NORM_REST, one with the lanes m alone. Masks are slow on some
 * machines */
typedef struct {
    int32_t rows, c;
    vm m;
} norm_part;

enum { NORM_REST = 0 };

ALWAYS_INLINE vf norm_load(const int V, const float *p, int v, vm m)
{
    return V == NORM_REST ? vf_load(m, p) : vf_full(p + v * LANES);
}

ALWAYS_INLINE void norm_store(const int V, float *p, int v, vm m, vf value)
{
    if (V == NORM_REST) {
        vf_store_parts(p, m, value);
    } else {
        vf_put(p + v * LANES, value);
    }
}

ALWAYS_INLINE int norm_vectors(const int V)
{
    return V == NORM_REST ? 1 : V;
}

/* sum of (x - from)^power over some rows, power 1 or 2: one sum of every other row, and one of the rest. So many on every
 * machine, and so the same bits */
ALWAYS_INLINE void norm_sums(const int V, const int power, vf *sum, const float *x, const vf *from, int32_t rows,
                             const norm_part *t)
{
    const int W = norm_vectors(V);
    vf acc[2 * NORM_MOST];
    UNROLL
    for (int k = 0; k < 2 * W; k++) {
        acc[k] = vf_zero();
    }
    for (int32_t r = 0; r < rows; r += 2, x += 2 * (ptrdiff_t)t->c) {
        UNROLL
        for (int k = 0; k < 2 * W; k++) {
            if (k < W || r + 1 < rows) {
                const vf value = norm_load(V, k < W ? x : x + t->c, k % W, t->m);
                const vf d = power == 2 ? vf_sub(value, from[k % W]) : value;
                acc[k] = power == 2 ? vf_fma(d, d, acc[k]) : vf_add(acc[k], d);
            }
        }
    }
    UNROLL
    for (int v = 0; v < W; v++) {
        sum[v] = vf_add(acc[v], acc[W + v]);
    }
}

/* the mean of the first block, and the sum of its (x - mean)^2 */
ALWAYS_INLINE void norm_first_moments(const int V, float *mean, float *squares, const float *x, const norm_part *t)
{
    const int W = norm_vectors(V);
    vf part[NORM_MOST], around[NORM_MOST];
    norm_sums(V, 1, part, x, part, t->rows, t);
    UNROLL
    for (int v = 0; v < W; v++) {
        part[v] = vf_mul(part[v], vf_set(1.0f / (float)t->rows));
    }
    norm_sums(V, 2, around, x, part, t->rows, t);
    UNROLL
    for (int v = 0; v < W; v++) {
        norm_store(V, mean, v, t->m, part[v]);
        norm_store(V, squares, v, t->m, around[v]);
    }
}

/* one row's part of the sums of x - from and of its square */
ALWAYS_INLINE void norm_row_moments(const int V, vf *sum, vf *square, const float *x, const vf *from, const norm_part *t)
{
    UNROLL
    for (int v = 0; v < norm_vectors(V); v++) {
        const vf d = vf_sub(norm_load(V, x, v, t->m), from[v]);
        sum[v] = vf_add(sum[v], d);
        square[v] = vf_fma(d, d, square[v]);
    }
}

/* joins the rows of a block with the `before` rows before it, which are at least as many: with d = x - mean, the mean
 * moves by sum(d) / all rows, and the squares grow by sum(d^2) - sum(d) that. So the difference is at least half of
 * sum(d^2), and no digits are lost */
ALWAYS_INLINE void norm_next_moments(const int V, float *mean, float *squares, const float *x, int32_t before,
                                     const norm_part *t)
{
    const int W = norm_vectors(V);
    const vf share = vf_set(1.0f / (float)(before + t->rows));
    vf old[NORM_MOST], sum[2 * NORM_MOST], square[2 * NORM_MOST];
    UNROLL
    for (int v = 0; v < W; v++) {
        old[v] = norm_load(V, mean, v, t->m);
        sum[v] = sum[W + v] = square[v] = square[W + v] = vf_zero();
    }
    int32_t r = 0;
    for (; r + 1 < t->rows; r += 2, x += 2 * (ptrdiff_t)t->c) {
        norm_row_moments(V, sum, square, x, old, t);
        norm_row_moments(V, sum + W, square + W, x + t->c, old, t);
    }
    if (r < t->rows) {
        norm_row_moments(V, sum, square, x, old, t);
    }
    UNROLL
    for (int v = 0; v < W; v++) {
        const vf all = vf_add(sum[v], sum[W + v]), move = vf_mul(all, share);
        const vf more = vf_fnma(all, move, vf_add(square[v], square[W + v]));
        norm_store(V, mean, v, t->m, vf_add(old[v], move));
        norm_store(V, squares, v, t->m, vf_add(norm_load(V, squares, v, t->m), more));
    }
}

ALWAYS_INLINE void norm_moments(const int V, float *mean, float *squares, const float *x, int32_t before,
                                const norm_part *t)
{
    if (before) {
        norm_next_moments(V, mean, squares, x, before, t);
    } else {
        norm_first_moments(V, mean, squares, x, t);
    }
}

/* away factor + bias, rounded once, where away is x - mean: x, normalised */
ALWAYS_INLINE vf norm_value(vf away, vf factor, vf bias)
{
    return vf_fma(away, factor, bias);
}

/* the range of a result: a limit that is infinite is not looked at */
ALWAYS_INLINE vf norm_clamped(const int highest, vf value, vf lo, vf hi)
{
    const vf low = vf_max(value, lo);
    return highest ? vf_min(low, hi) : low;
}

/* 0: no range; 1: no highest value; 2: any other range */
ALWAYS_INLINE int norm_clamps(float lo, float hi)
{
    const float most = 1.0f / 0.0f;
    return hi < most ? 2 : lo > -most;
}

/* `clamps` as norm_clamps says */
ALWAYS_INLINE void norm_apply(const int V, const int clamps, float *y, const float *x, const float *mean,
                              const float *factor, const float *bias, float lo, float hi, const norm_part *t)
{
    const int W = norm_vectors(V);
    const vf low = vf_set(lo), high = vf_set(hi);
    vf m[NORM_MOST], f[NORM_MOST], b[NORM_MOST];
    UNROLL
    for (int v = 0; v < W; v++) {
        m[v] = norm_load(V, mean, v, t->m);
        f[v] = norm_load(V, factor, v, t->m);
        b[v] = norm_load(V, bias, v, t->m);
    }
    for (int32_t r = 0; r < t->rows; r++, x += t->c, y += t->c) {
        UNROLL
        for (int v = 0; v < W; v++) {
            const vf value = norm_value(vf_sub(norm_load(V, x, v, t->m), m[v]), f[v], b[v]);
            norm_store(V, y, v, t->m, clamps ? norm_clamped(clamps == 2, value, low, high) : value);
        }
    }
}

/* what the gradient needs of each channel; a gradient counts where lo < y < hi */
typedef struct {
    const float *mean, *factor, *bias;
    float lo, hi;
} norm_source;

/* `clamps` as above */
ALWAYS_INLINE vf norm_gradient(const int clamps, vf g, vf value, vf lo, vf hi)
{
    return clamps == 2 ? vf_between(g, value, lo, hi) : clamps ? vf_above(g, value, lo) : g;
}

/* adds a block's sums of g and of g (x - mean) */
ALWAYS_INLINE void norm_gradient_sums(const int clamps, const int V, float *products, float *sums, const float *g,
                                      const float *x, const norm_source *n, const norm_part *t)
{
    const int W = norm_vectors(V);
    const vf lo = vf_set(n->lo), hi = vf_set(n->hi);
    vf m[NORM_MOST], f[NORM_MOST], b[NORM_MOST], part[2 * NORM_MOST];
    UNROLL
    for (int v = 0; v < W; v++) {
        m[v] = norm_load(V, n->mean, v, t->m);
        f[v] = norm_load(V, n->factor, v, t->m);
        b[v] = norm_load(V, n->bias, v, t->m);
        part[v] = part[W + v] = vf_zero();
    }
    for (int32_t r = 0; r < t->rows; r++, g += t->c, x += t->c) {
        UNROLL
        for (int v = 0; v < W; v++) {
            const vf away = vf_sub(norm_load(V, x, v, t->m), m[v]), value = norm_value(away, f[v], b[v]);
            const vf d = norm_gradient(clamps, norm_load(V, g, v, t->m), value, lo, hi);
            part[v] = vf_add(part[v], d);
            part[W + v] = vf_fma(d, away, part[W + v]);
        }
    }
    UNROLL
    for (int v = 0; v < W; v++) {
        norm_store(V, sums, v, t->m, vf_add(norm_load(V, sums, v, t->m), part[v]));
        norm_store(V, products, v, t->m, vf_add(norm_load(V, products, v, t->m), part[W + v]));
    }
}

/* dx = factor (g - mean_g - (x - mean) slope), the last product rounded with its difference */
ALWAYS_INLINE void norm_gradient_apply(const int clamps, const int V, float *dx, const float *g, const float *x,
                                       const float *mean_g, const float *slope, const norm_source *n, const norm_part *t)
{
    const int W = norm_vectors(V);
    const vf lo = vf_set(n->lo), hi = vf_set(n->hi);
    vf m[NORM_MOST], f[NORM_MOST], b[NORM_MOST], a[NORM_MOST], s[NORM_MOST];
    UNROLL
    for (int v = 0; v < W; v++) {
        m[v] = norm_load(V, n->mean, v, t->m);
        f[v] = norm_load(V, n->factor, v, t->m);
        b[v] = norm_load(V, n->bias, v, t->m);
        a[v] = norm_load(V, mean_g, v, t->m);
        s[v] = norm_load(V, slope, v, t->m);
    }
    for (int32_t r = 0; r < t->rows; r++, g += t->c, x += t->c, dx += t->c) {
        UNROLL
        for (int v = 0; v < W; v++) {
            const vf away = vf_sub(norm_load(V, x, v, t->m), m[v]), value = norm_value(away, f[v], b[v]);
            const vf d = norm_gradient(clamps, norm_load(V, g, v, t->m), value, lo, hi);
            norm_store(V, dx, v, t->m, vf_mul(f[v], vf_fnma(away, s[v], vf_sub(d, a[v]))));
        }
    }
}

/* how many vectors of channels are next; NORM_REST if no whole one is left */
ALWAYS_INLINE int norm_next(norm_part *t, int32_t rows, int32_t c, int32_t o)
{
    const int32_t left = (c - o) / LANES;
    t->rows = rows;
    t->c = c;
    t->m = lanes(c - o);
    return left < NORM_MOST ? left : NORM_MOST;
}

/* a call for all channels of a block of rows, for one block after the other: with V, at (the place of the block's first
 * channel in x), o (the channel), r (the row) and t as the call needs them */
#define NORM_EACH(rows, c, ...)                                                                        \
    {                                                                                                  \
        norm_part part, *t = &part;                                                                    \
        for (int32_t r = 0; r < (rows); r += NORM_BLOCK) {                                             \
            for (int32_t o = 0, count; o < (c); o += norm_vectors(count) * LANES) {                    \
                const ptrdiff_t at = (ptrdiff_t)r * (c) + o;                                           \
                count = norm_next(t, (rows) - r < NORM_BLOCK ? (rows) - r : NORM_BLOCK, c, o);         \
                switch (count) {                                                                       \
                case 4: { enum { V = 4 }; __VA_ARGS__; } break;                                        \
                case 3: { enum { V = 3 }; __VA_ARGS__; } break;                                        \
                case 2: { enum { V = 2 }; __VA_ARGS__; } break;                                        \
                case 1: { enum { V = 1 }; __VA_ARGS__; } break;                                        \
                default: { enum { V = NORM_REST }; __VA_ARGS__; } break;                               \
                }                                                                                      \
            }                                                                                          \
        }                                                                                              \
    }

#endif
