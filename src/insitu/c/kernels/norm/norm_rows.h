/* Batch norm over x[rows,c], channels last, on vectors: sums down columns stay in registers, some channels at a time.
 *
 * A mean and a variance are found in blocks of rows, which are read from memory once: the mean of a block, the squares of
 * its differences to it, and then of both what is known of all rows so far. That loses fewer digits than long sums do.
 */
#ifndef INSITU_NORM_ROWS_H
#define INSITU_NORM_ROWS_H

#include "isa/one_lane.h"

enum { NORM_BLOCK = 64, NORM_MOST = 4 }; /* rows of a block; vectors of channels at a time */

/* some channels of all rows: V vectors, the last with the lanes m */
typedef struct {
    int32_t rows, c;
    vm m;
} norm_part;

ALWAYS_INLINE vf norm_load(const int V, const float *p, int v, vm m)
{
    return v + 1 < V ? vf_full(p + v * LANES) : vf_load(m, p + v * LANES);
}

ALWAYS_INLINE void norm_store(const int V, float *p, int v, vm m, vf value)
{
    if (v + 1 < V) {
        vf_put(p + v * LANES, value);
    } else {
        vf_store(p + v * LANES, m, value);
    }
}

/* sum of (x - from)^power over some rows, power 1 or 2; NORM_MOST / V rows side by side */
ALWAYS_INLINE void norm_sums(const int V, const int power, vf *sum, const float *x, const vf *from, int32_t rows,
                             const norm_part *t)
{
    const int R = NORM_MOST / V;
    vf acc[NORM_MOST];
    UNROLL
    for (int k = 0; k < NORM_MOST; k++) {
        acc[k] = vf_zero();
    }
    for (int32_t r = 0; r < rows; r += R, x += (ptrdiff_t)R * t->c) {
        UNROLL
        for (int k = 0; k < V * R; k++) {
            if (r + k / V < rows) {
                const vf value = norm_load(V, x + (ptrdiff_t)(k / V) * t->c, k % V, t->m);
                const vf d = power == 2 ? vf_sub(value, from[k % V]) : value;
                acc[k] = power == 2 ? vf_fma(d, d, acc[k]) : vf_add(acc[k], d);
            }
        }
    }
    UNROLL
    for (int v = 0; v < V; v++) {
        sum[v] = acc[v];
        UNROLL
        for (int k = v + V; k < V * R; k += V) {
            sum[v] = vf_add(sum[v], acc[k]);
        }
    }
}

/* joins the mean of a block and the sum of its (x - mean)^2 with those of the `before` rows before it */
ALWAYS_INLINE void norm_moments(const int V, float *mean, float *squares, const float *x, int32_t before,
                                const norm_part *t)
{
    const float rows = (float)t->rows, share = rows / (float)(before + t->rows);
    vf part[NORM_MOST], around[NORM_MOST];
    norm_sums(V, 1, part, x, part, t->rows, t);
    UNROLL
    for (int v = 0; v < V; v++) {
        part[v] = vf_mul(part[v], vf_set(1.0f / rows));
    }
    norm_sums(V, 2, around, x, part, t->rows, t);
    UNROLL
    for (int v = 0; v < V; v++) {
        const vf old = norm_load(V, mean, v, t->m), off = vf_sub(part[v], old);
        const vf more = vf_fma(vf_mul(off, off), vf_set((float)before * share), around[v]);
        norm_store(V, mean, v, t->m, vf_fma(off, vf_set(share), old));
        norm_store(V, squares, v, t->m, vf_add(norm_load(V, squares, v, t->m), more));
    }
}

/* (x - mean) factor + bias of V vectors, as batch_norm_train_f32 computes it */
ALWAYS_INLINE vf norm_value(vf x, vf mean, vf factor, vf bias)
{
    return vf_add(vf_mul(vf_sub(x, mean), factor), bias);
}

ALWAYS_INLINE void norm_apply(const int V, const int clamps, float *y, const float *x, const float *mean,
                              const float *factor, const float *bias, float lo, float hi, const norm_part *t)
{
    vf m[NORM_MOST], f[NORM_MOST], b[NORM_MOST];
    UNROLL
    for (int v = 0; v < V; v++) {
        m[v] = norm_load(V, mean, v, t->m);
        f[v] = norm_load(V, factor, v, t->m);
        b[v] = norm_load(V, bias, v, t->m);
    }
    for (int32_t r = 0; r < t->rows; r++, x += t->c, y += t->c) {
        UNROLL
        for (int v = 0; v < V; v++) {
            const vf value = norm_value(norm_load(V, x, v, t->m), m[v], f[v], b[v]);
            norm_store(V, y, v, t->m, clamps ? vf_min(vf_max(value, vf_set(lo)), vf_set(hi)) : value);
        }
    }
}

/* what the gradient needs of each channel; a gradient counts where lo < y < hi */
typedef struct {
    const float *mean, *factor, *bias;
    float lo, hi;
} norm_source;

ALWAYS_INLINE vf norm_gradient(vf g, vf x, vf mean, vf factor, vf bias, vf lo, vf hi)
{
    return vf_between(g, norm_value(x, mean, factor, bias), lo, hi);
}

/* adds a block's sums of g and of g (x - mean) */
ALWAYS_INLINE void norm_gradient_sums(const int V, float *products, float *sums, const float *g, const float *x,
                                      const norm_source *n, const norm_part *t)
{
    const vf lo = vf_set(n->lo), hi = vf_set(n->hi);
    vf m[NORM_MOST], f[NORM_MOST], b[NORM_MOST], part[2 * NORM_MOST];
    UNROLL
    for (int v = 0; v < V; v++) {
        m[v] = norm_load(V, n->mean, v, t->m);
        f[v] = norm_load(V, n->factor, v, t->m);
        b[v] = norm_load(V, n->bias, v, t->m);
        part[v] = part[V + v] = vf_zero();
    }
    for (int32_t r = 0; r < t->rows; r++, g += t->c, x += t->c) {
        UNROLL
        for (int v = 0; v < V; v++) {
            const vf value = norm_load(V, x, v, t->m);
            const vf d = norm_gradient(norm_load(V, g, v, t->m), value, m[v], f[v], b[v], lo, hi);
            part[v] = vf_add(part[v], d);
            part[V + v] = vf_fma(d, vf_sub(value, m[v]), part[V + v]);
        }
    }
    UNROLL
    for (int v = 0; v < V; v++) {
        norm_store(V, sums, v, t->m, vf_add(norm_load(V, sums, v, t->m), part[v]));
        norm_store(V, products, v, t->m, vf_add(norm_load(V, products, v, t->m), part[V + v]));
    }
}

/* dx = factor (g - away - (x - mean) slope) */
ALWAYS_INLINE void norm_gradient_apply(const int V, float *dx, const float *g, const float *x, const float *away,
                                       const float *slope, const norm_source *n, const norm_part *t)
{
    const vf lo = vf_set(n->lo), hi = vf_set(n->hi);
    vf m[NORM_MOST], f[NORM_MOST], b[NORM_MOST], a[NORM_MOST], s[NORM_MOST];
    UNROLL
    for (int v = 0; v < V; v++) {
        m[v] = norm_load(V, n->mean, v, t->m);
        f[v] = norm_load(V, n->factor, v, t->m);
        b[v] = norm_load(V, n->bias, v, t->m);
        a[v] = norm_load(V, away, v, t->m);
        s[v] = norm_load(V, slope, v, t->m);
    }
    for (int32_t r = 0; r < t->rows; r++, g += t->c, x += t->c, dx += t->c) {
        UNROLL
        for (int v = 0; v < V; v++) {
            const vf value = norm_load(V, x, v, t->m);
            const vf d = norm_gradient(norm_load(V, g, v, t->m), value, m[v], f[v], b[v], lo, hi);
            const vf rest = vf_mul(vf_sub(value, m[v]), s[v]);
            norm_store(V, dx, v, t->m, vf_mul(f[v], vf_sub(vf_sub(d, a[v]), rest)));
        }
    }
}

/* how many vectors of channels are next, and what they are */
ALWAYS_INLINE int norm_next(norm_part *t, int32_t rows, int32_t c, int32_t o)
{
    const int32_t left = (c - o + LANES - 1) / LANES, count = left < NORM_MOST ? left : NORM_MOST;
    t->rows = rows;
    t->c = c;
    t->m = lanes(c - o - (count - 1) * LANES);
    return count;
}

/* a call for all channels of a block of rows, for one block after the other: with V, at (the place of the block's first
 * channel in x), o (the channel), r (the row) and t as the call needs them */
#define NORM_EACH(rows, c, ...)                                                                        \
    {                                                                                                  \
        norm_part part, *t = &part;                                                                    \
        for (int32_t r = 0; r < (rows); r += NORM_BLOCK) {                                             \
            for (int32_t o = 0, count; o < (c); o += count * LANES) {                                  \
                const ptrdiff_t at = (ptrdiff_t)r * (c) + o;                                           \
                count = norm_next(t, (rows) - r < NORM_BLOCK ? (rows) - r : NORM_BLOCK, c, o);         \
                switch (count) {                                                                       \
                case 4: { enum { V = 4 }; __VA_ARGS__; } break;                                        \
                case 3: { enum { V = 3 }; __VA_ARGS__; } break;                                        \
                case 2: { enum { V = 2 }; __VA_ARGS__; } break;                                        \
                default: { enum { V = 1 }; __VA_ARGS__; } break;                                       \
                }                                                                                      \
            }                                                                                          \
        }                                                                                              \
    }

#endif
