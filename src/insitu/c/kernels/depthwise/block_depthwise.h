/* The gradients of a depthwise convolution in block floating numbers, for mantissas of either width. See block.h. */
#ifndef INSITU_BLOCK_DEPTHWISE_H
#define INSITU_BLOCK_DEPTHWISE_H

#include "isa/mantissas.h"
#include "isa/window_sums.h"
#include "kernels.h"
#include "kernels/conv/block_conv.h"
#include "numbers/scales.h"

/* Rows first..last-1 of g of one group, as p[row,ow,BLOCK_GROUP] = g share / 2^(15 + highest - e); there is room for
 * `room` of them. */
typedef struct {
    int16_t *p;
    int32_t first, last, room;
} block_band;

/* rows before `first` are dropped: the rest moves to the front */
static inline void block_band_move(block_band *t, int32_t first, int32_t row)
{
    const int32_t *from = (const int32_t *)(const void *)(t->p + (first - t->first) * row);
    int32_t *to = (int32_t *)(void *)t->p;
    for (int32_t i = 0; i < (t->last - first) * row / 2; i++) {
        to[i] = from[i];
    }
    t->first = first;
    t->last = t->last > first ? t->last : first;
}

/* lay out the rows of g that row r of dx gathers from, unless they already are; n channels */
ALWAYS_INLINE void block_band_reach(block_band *t, int32_t r, const void *g, const int8_t *ge, int32_t at,
                                    const int16_t *share, int32_t highest, int32_t n, const conv2d_shape *s,
                                    int32_t bytes)
{
    const int32_t low = r + s->pt - (s->kh - 1) * s->dh, high = (r + s->pt) / s->sh + 1, row = s->ow * BLOCK_GROUP;
    const int32_t first = low > 0 ? (low + s->sh - 1) / s->sh : 0, last = high < s->oh ? high : s->oh;
    if (last > t->first + t->room) {
        block_band_move(t, first, row);
    }
    for (; t->last < last; t->last++) {
        mantissas_scaled(t->p + (t->last - t->first) * row, g, at + t->last * s->ow * s->c, s->c, share,
                         BLOCK_SHARE + highest - ge[t->last * block_groups(s->c)], s->ow, n, bytes);
    }
}

/* The taps of a window along one axis that lie on outputs, for a place on that axis: `count` of them, the first is tap
 * `tap` on output `at`. Each of the others comes `every` taps after the last, `back` outputs before it. */
typedef struct {
    int32_t every, back;
} block_steps;

typedef struct {
    int32_t tap, at, count;
} block_hits;

static inline block_steps block_steps_of(int32_t stride, int32_t dilation)
{
    int32_t every = 1;
    while (every * dilation % stride) {
        every++;
    }
    const block_steps found = {every, every * dilation / stride};
    return found;
}

static inline block_hits block_hits_of(int32_t place, int32_t kernel, int32_t stride, int32_t dilation, int32_t size,
                                       block_steps step)
{
    int32_t tap = 0;
    while (tap < step.every && (place - tap * dilation) % stride) {
        tap++;
    }
    const int32_t at = (place - tap * dilation) / stride, beyond = at - size + 1;
    const int32_t skip = beyond > 0 ? (beyond + step.back - 1) / step.back : 0; /* these are after the last output */
    const int32_t taps = tap < step.every && tap < kernel ? (kernel - 1 - tap) / step.every + 1 : 0;
    const int32_t most = place >= tap * dilation ? at / step.back + 1 : 0, end = taps < most ? taps : most;
    const block_hits found = {tap + skip * step.every, at - skip * step.back, end > skip ? end - skip : 0};
    return found;
}

/* one row of dx of a group of n channels: acc[q,k]; p has the rows of g from `first` on */
ALWAYS_INLINE void block_depthwise_row(int32_t *acc, int32_t r, const int16_t *p, int32_t first, const int8_t *w,
                                       int32_t n, block_steps down, block_steps along, const conv2d_shape *s)
{
    const block_hits row = block_hits_of(r + s->pt, s->kh, s->sh, s->dh, s->oh, down);
    const int32_t pixel = BLOCK_GROUP * (int32_t)sizeof(*p);
    window_task t = {p, w, row.count, 0, -along.back * pixel, along.every * s->c, -down.back * s->ow * pixel,
                     down.every * s->kw * s->c};
    for (int32_t q = 0; q < s->w; q++, acc += BLOCK_GROUP) {
        const block_hits col = block_hits_of(q + s->pl, s->kw, s->sw, s->dw, s->ow, along);
        t.p = p + ((row.at - first) * s->ow + col.at) * BLOCK_GROUP;
        t.w = w + (row.tap * s->kw + col.tap) * s->c;
        t.cols = col.count;
        window_sums(acc, &t, n);
    }
}

/* one row of a group of n channels: block_store, faster if the group is whole and its numbers are wide */
ALWAYS_INLINE void block_store_group(void *m, int8_t *e, int32_t at, int32_t step, const int32_t *x, int32_t pixels,
                                     int32_t n, int32_t exponent, int32_t bytes)
{
    const int32_t from = 0, bits = 8 * bytes - 1;
    const uint32_t reach = n == BLOCK_GROUP ? mantissas_reach(x, &from, 1, pixels * BLOCK_GROUP) : 0;
    const int32_t d = reach >> bits ? block_normalise(e, reach, exponent, bytes) : BLOCK_NOTHING;
    if (d == BLOCK_NOTHING) {
        block_store(m, e, at, step, x, BLOCK_GROUP, pixels, n, exponent, bytes);
    } else {
        mantissas_groups(m, at, step, x, pixels, d, bytes);
    }
}

/* Group by group of an image; g is read before dx is written in its place. */
ALWAYS_INLINE void block_depthwise_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const int8_t *w,
                                      const int16_t *share, const weight_scales *source, const int16_t *k, int32_t room,
                                      const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t groups = block_groups(s->c);
    const block_steps down = block_steps_of(s->sh, s->dh), along = block_steps_of(s->sw, s->dw);
    int32_t *acc = (int32_t *)scratch;
    int16_t *side = (int16_t *)(void *)(acc + s->w * BLOCK_GROUP);
    for (int32_t part = 0; part < s->n * groups; part++) {
        const int32_t image = part / groups, group = part % groups, c = group * BLOCK_GROUP, n = block_width(c, s->c);
        const int8_t *e = ge + image * s->oh * groups + group;
        const int32_t highest = block_highest(e, s->oh, groups), exponent = block_exponent(highest, bytes) + k[group];
        const int16_t *shares = share ? share + c : side;
        block_band t = {side + BLOCK_GROUP, 0, 0, room};
        if (!share) {
            channel_shares_s16(side, source, k[group], c, n);
        }
        for (int32_t r = 0; r < s->h; r++) {
            const int32_t line = image * s->h + r;
            block_band_reach(&t, r, g, e, image * s->oh * s->ow * s->c + c, shares, highest, n, s, bytes);
            block_depthwise_row(acc, r, t.p, t.first, w + c, n, down, along, s);
            block_store_group(dx, dxe + line * groups + group, line * s->w * s->c + c, s->c, acc, s->w, n, exponent,
                              bytes);
        }
    }
}

/* dw[u,v,c] += p[j,c] (x - zero) for one row of g, aligned; x is the image */
static inline void block_depthwise_dw_row(int32_t *dw, const int16_t *p, const int8_t *x, int32_t i, int32_t zero,
                                          const conv2d_shape *s)
{
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t y = i * s->sh + u * s->dh - s->pt;
        for (int32_t j = 0; y >= 0 && y < s->h && j < s->ow; j++) {
            for (int32_t v = 0; v < s->kw; v++) {
                const int32_t q = j * s->sw + v * s->dw - s->pl;
                const int8_t *from = x + (y * s->w + q) * s->c;
                int32_t *to = dw + (u * s->kw + v) * s->c;
                const int32_t n = q >= 0 && q < s->w ? s->c : 0;
                for (int32_t c = 0; c < n; c++) {
                    to[c] += p[j * s->c + c] * (from[c] - zero);
                }
            }
        }
    }
}

ALWAYS_INLINE void block_depthwise_dw(int32_t *dw, int8_t *dwe, const void *g, const int8_t *ge, const int8_t *x,
                                      int32_t zero, int32_t drop, const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t groups = block_groups(s->c);
    block_group_highest(dwe, ge, s->n * s->oh, groups);
    for (int32_t i = 0; i < s->kh * s->kw * s->c; i++) {
        dw[i] = 0;
    }
    for (int32_t line = 0; line < s->n * s->oh; line++) {
        block_aligned_row(scratch, g, ge + line * groups, line * s->ow * s->c, dwe, s->ow, s->c, drop, bytes);
        block_depthwise_dw_row(dw, scratch, x + line / s->oh * s->h * s->w * s->c, line % s->oh, zero, s);
    }
    block_dw_exponents(dwe, groups, drop, bytes);
}

#endif
