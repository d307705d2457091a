/* The walk over taps in rows of three, as those of a 3x3 window: their weights stay in registers (taps.h: any others). */
#ifndef INSITU_ISA_LANES_TAPS_GRID_H
#define INSITU_ISA_LANES_TAPS_GRID_H

#include "isa/lanes/taps_parts.h"

/* vectors of a cache line; fewest rows, and floats of a row at most: a column of long rows is in few sets of the cache */
enum { SLIDE_VECTORS = LANES < 16 ? 16 / LANES : 1, SLIDE_ROWS = 4, SLIDE_FLOATS = 512 };

/* taps in rows of three at the same columns, as those of a 3x3 window: all their weights stay in registers */
typedef struct {
    int32_t rows, at[3];
    const void *row[3];
} tap_grid;

ALWAYS_INLINE tap_grid taps_grid(const tap *taps, int32_t count)
{
    tap_grid d = {count % 3 == 0 && count <= 9 ? count / 3 : 0, {0, 0, 0}, {NULL, NULL, NULL}};
    for (int32_t k = 0; k < 3 * d.rows; k++) {
        if (k < 3) {
            d.at[k] = taps[k].at;
        }
        if (k % 3 == 0) {
            d.row[k / 3] = taps[k].x;
        }
        if (taps[k].at != d.at[k % 3] || taps[k].x != d.row[k / 3]) {
            d.rows = 0;
        }
    }
    return d;
}

/* the outputs in the making: R rows of three taps for LANES channels, all of them in registers */
typedef struct {
    vf f[9], first, lo, hi;
    const float *x[3], *more; /* at the first output */
    float *y;
    ptrdiff_t at[3];
    int clamps;
} grid_taps;

ALWAYS_INLINE void grid_put(const int wide, const int full, const grid_taps *g, ptrdiff_t y, vf sum, vm m)
{
    if (wide == TAPS_END && g->more) {
        sum = vf_add(sum, taps_load(full, m, g->more + y));
    }
    taps_store(full, g->y + y, m, wide == TAPS_END && g->clamps ? vf_min(vf_max(sum, g->lo), g->hi) : sum);
}

/* the output whose inputs and result are at x and y from the first one's; of its columns of taps, those from `first` to
 * before `last` are read where `inside` says so. A null `inside` means all of them. */
ALWAYS_INLINE void grid_pixel(const int wide, const int full, const int R, const int first, const int last,
                              const grid_taps *g, ptrdiff_t x, ptrdiff_t y, const int *inside, vm m)
{
    vf sum = g->first;
    UNROLL
    for (int u = 0; u < R; u++) {
        UNROLL
        for (int v = 0; v < 3; v++) {
            if (v >= first && v < last && (!inside || inside[v])) {
                sum = vf_fma(taps_load(full, m, g->x[u] + g->at[v] + x), g->f[3 * u + v], sum);
            }
        }
    }
    grid_put(wide, full, g, y, sum, m);
}

/* column v of three rows of inputs that share a pixel becomes three sums at once */
typedef struct {
    vf sum[3]; /* of the outputs that have this row of inputs under the last, the middle and the first row of taps */
} grid_sums;

ALWAYS_INLINE grid_sums grid_row(const int full, const int first, const int last, const int rows, const vf *f,
                                 const ptrdiff_t *at, grid_sums s, const float *from, vm m)
{
    UNROLL
    for (int v = first; v < last; v++) {
        vf x = taps_load(full, m, from + at[v]);
        VF_KEEP(x);
        UNROLL
        for (int u = 0; u < rows; u++) {
            s.sum[2 - u] = vf_fma(x, f[3 * u + v], s.sum[2 - u]);
        }
    }
    return s;
}

/* pixel p of all rows, where each row of inputs follows the one before: it is loaded once, for three outputs */
ALWAYS_INLINE void grid_slide(const int wide, const int full, const int first, const int last, const grid_taps *g,
                              ptrdiff_t x, ptrdiff_t y, vm m, const tap_row *t)
{
    const ptrdiff_t x_next = t->x_next, at[3] = {g->at[0], g->at[1], g->at[2]};
    const float *from = g->x[0] + x;
    vf f[9];
    UNROLL
    for (int k = 0; k < 9; k++) {
        f[k] = g->f[k];
    }
    grid_sums s = {{g->first, g->first, g->first}};
    s = grid_row(full, first, last, 1, f, at, s, from, m);
    s.sum[1] = s.sum[2], s.sum[2] = g->first, from += x_next;
    s = grid_row(full, first, last, 2, f, at, s, from, m);
    for (int32_t r = 0; r < t->rows; r++, y += t->y_next) {
        s.sum[0] = s.sum[1], s.sum[1] = s.sum[2], s.sum[2] = g->first, from += x_next;
        s = grid_row(full, first, last, 3, f, at, s, from, m);
        grid_put(wide, full, g, y, s.sum[0], m);
    }
}

/* the same for all columns of taps, or without the first or the last: functions of their own have registers enough */
APART void grid_slide_all(const grid_taps *g, ptrdiff_t x, ptrdiff_t y, const tap_row *t)
{
    grid_slide(1, 1, 0, 3, g, x, y, lanes(LANES), t);
}

APART void grid_slide_later(const grid_taps *g, ptrdiff_t x, ptrdiff_t y, const tap_row *t)
{
    grid_slide(1, 1, 1, 3, g, x, y, lanes(LANES), t);
}

APART void grid_slide_earlier(const grid_taps *g, ptrdiff_t x, ptrdiff_t y, const tap_row *t)
{
    grid_slide(1, 1, 0, 2, g, x, y, lanes(LANES), t);
}

/* pixel p of all rows */
ALWAYS_INLINE void grid_column(const int wide, const int full, const int R, const int first, const int last,
                               const grid_taps *g, int32_t p, const int *inside, vm m, const tap_row *t)
{
    ptrdiff_t x = (ptrdiff_t)p * t->step * t->c, y = (ptrdiff_t)p * t->y_step * t->c;
    for (int32_t r = 0; r < t->rows; r++, x += t->x_next, y += t->y_next) {
        grid_pixel(wide, full, R, first, last, g, x, y, inside, m);
    }
}

/* the same where not all taps are inside: usually all but the first or the last column of them. Rows at the top and bottom
 * of an image are few */
ALWAYS_INLINE void grid_edge(const int wide, const int full, const int R, const grid_taps *g, const tap *taps,
                             int32_t p, vm m, const tap_row *t)
{
    const int inside[3] = {tap_inside(taps, p, t), tap_inside(taps + 1, p, t), tap_inside(taps + 2, p, t)};
    if (full && R == 3 && !inside[0] && inside[1] && inside[2]) {
        grid_column(wide, full, R, 1, 3, g, p, NULL, m, t);
    } else if (full && R == 3 && inside[0] && inside[1] && !inside[2]) {
        grid_column(wide, full, R, 0, 2, g, p, NULL, m, t);
    } else {
        grid_column(wide, full, R, 0, 3, g, p, inside, m, t);
    }
}

/* pixels of all rows, where all taps are inside */
ALWAYS_INLINE void grid_inside(const int wide, const int full, const int R, const grid_taps *g, tap_range whole, vm m,
                               const tap_row *t)
{
    const ptrdiff_t x_step = (ptrdiff_t)t->step * t->c, y_step = (ptrdiff_t)t->y_step * t->c;
    for (int32_t r = 0; r < t->rows; r++) {
        ptrdiff_t x = (ptrdiff_t)r * t->x_next + whole.first * x_step, y = (ptrdiff_t)r * t->y_next + whole.first * y_step;
        for (int32_t p = whole.first; p < whole.last; p++, x += x_step, y += y_step) {
            grid_pixel(wide, full, R, 0, 3, g, x, y, NULL, m);
        }
    }
}

/* what the channels o..o + LANES - 1 need, of R rows of taps */
ALWAYS_INLINE grid_taps grid_of(const int wide, const int full, const int R, float *y, const float *start,
                                const tap *taps, const tap_grid *d, const matrix_end *end, int32_t o, vm m,
                                const tap_row *t)
{
    grid_taps g;
    g.first = start ? taps_load(full, m, start + o) : vf_zero();
    g.lo = vf_set(wide == TAPS_END ? end->lo : 0.0f);
    g.hi = vf_set(wide == TAPS_END ? end->hi : 0.0f);
    g.clamps = wide == TAPS_END && end->clamps;
    g.more = wide == TAPS_END && end->more ? end->more + o : NULL;
    g.y = y + o;
    UNROLL
    for (int u = 0; u < R; u++) {
        g.x[u] = (const float *)d->row[u] + o;
        UNROLL
        for (int v = 0; v < 3; v++) {
            g.f[3 * u + v] = taps_weight(wide, full, taps + 3 * u + v, o, m);
        }
    }
    UNROLL
    for (int v = 0; v < 3; v++) {
        g.at[v] = (ptrdiff_t)d->at[v] * t->c;
    }
    return g;
}

/* the channels o..o + LANES - 1 of all rows, R rows of taps */
ALWAYS_INLINE void grid_channels(const int wide, const int full, const int R, float *y, const float *start,
                                 const tap *taps, const tap_grid *d, const matrix_end *end, int32_t o, tap_range whole,
                                 const tap_row *t)
{
    const vm m = lanes(t->c - o);
    const grid_taps g = grid_of(wide, full, R, y, start, taps, d, end, o, m, t);
    for (int32_t p = 0; p < whole.first; p++) {
        grid_edge(wide, full, R, &g, taps, p, m, t);
    }
    grid_inside(wide, full, R, &g, whole, m, t);
    for (int32_t p = whole.last; p < t->pixels; p++) {
        grid_edge(wide, full, R, &g, taps, p, m, t);
    }
}

/* do rows of inputs follow one another, under enough rows of outputs, of which only the first pixel may lack the first
 * column of taps, and only the last pixel the last? */
ALWAYS_INLINE int grid_slides(const tap_grid *d, const tap *taps, tap_range whole, const tap_row *t)
{
    const float *const *x = (const float *const *)d->row;
    const int32_t last = t->pixels - 1, next = t->x_next;
    const int begins = whole.first == 0 || (whole.first == 1 && tap_inside(taps + 1, 0, t));
    const int ends = whole.last > last || (whole.last == last && tap_inside(taps + 1, last, t));
    const int enough = d->rows == 3 && t->rows >= SLIDE_ROWS && next <= SLIDE_FLOATS && whole.first < whole.last;
    return enough && begins && ends && x[1] == x[0] + next && x[2] == x[1] + next;
}

/* SLIDE_VECTORS * LANES channels from o on, a column of pixels after the other: whole cache lines are used at once */
ALWAYS_INLINE void grid_columns(float *y, const float *start, const tap *taps, const tap_grid *d, int32_t o,
                                tap_range whole, const tap_row *t)
{
    grid_taps g[SLIDE_VECTORS];
    for (int k = 0; k < SLIDE_VECTORS; k++) {
        g[k] = grid_of(1, 1, 3, y, start, taps, d, NULL, o + k * LANES, lanes(LANES), t);
    }
    for (int32_t p = 0; p < t->pixels; p++) {
        const ptrdiff_t x = (ptrdiff_t)p * t->step * t->c, to = (ptrdiff_t)p * t->y_step * t->c;
        for (int k = 0; k < SLIDE_VECTORS; k++) {
            if (p < whole.first) {
                grid_slide_later(g + k, x, to, t);
            } else if (p >= whole.last) {
                grid_slide_earlier(g + k, x, to, t);
            } else {
                grid_slide_all(g + k, x, to, t);
            }
        }
    }
}

#endif
