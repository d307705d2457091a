/* The gradients of a depthwise convolution in block floating numbers, for mantissas of either width. See block.h. */
#ifndef INSITU_BLOCK_DEPTHWISE_H
#define INSITU_BLOCK_DEPTHWISE_H

#include "block_conv.h"

/* one group of an image of g, n channels, as p[oh,ow,BLOCK_GROUP] = g share / 2^(15 + highest - e) */
ALWAYS_INLINE void block_depthwise_pack(int16_t *p, const void *g, const int8_t *ge, int32_t at, const int16_t *share,
                                        int32_t highest, int32_t n, const conv2d_shape *s, int32_t bytes)
{
    for (int32_t i = 0; i < s->oh; i++, ge += block_groups(s->c)) {
        for (int32_t j = 0; j < s->ow; j++, at += s->c, p += BLOCK_GROUP) {
            for (int32_t k = 0; k < n; k++) {
                p[k] = (int16_t)block_half_up(block_get(g, at + k, bytes) * share[k], BLOCK_SHARE + highest - *ge);
            }
        }
    }
}

/* acc[q,k] += sum over v of p[i,j,k] w[u,v,k] for one row of dx and one of p */
ALWAYS_INLINE void block_depthwise_row(int32_t *acc, const int16_t *p, const int8_t *w, int32_t n,
                                       const conv2d_shape *s)
{
    for (int32_t q = 0; q < s->w; q++, acc += BLOCK_GROUP) {
        int32_t sums[BLOCK_GROUP] = {0}; /* nothing else can lie here: sums of a whole group stay in vectors */
        for (int32_t v = 0; v < s->kw; v++) {
            const int32_t at = q + s->pl - v * s->dw, j = at / s->sw;
            if (at < 0 || at % s->sw || j >= s->ow) {
                continue;
            }
            const int16_t *left = p + j * BLOCK_GROUP;
            const int8_t *right = w + v * s->c;
            for (int32_t k = 0; k < n; k++) {
                sums[k] += left[k] * right[k];
            }
        }
        for (int32_t k = 0; k < n; k++) {
            acc[k] += sums[k];
        }
    }
}

/* one group of an image: what it reads of g is in p before dx is written */
ALWAYS_INLINE void block_depthwise_group(void *dx, int8_t *dxe, int32_t at, const int16_t *p, const int8_t *w,
                                         int32_t n, int32_t exponent, const conv2d_shape *s, int32_t *acc,
                                         int32_t bytes)
{
    for (int32_t r = 0; r < s->h; r++, at += s->w * s->c, dxe += block_groups(s->c)) {
        for (int32_t i = 0; i < s->w * BLOCK_GROUP; i++) {
            acc[i] = 0;
        }
        for (int32_t u = 0; u < s->kh; u++) {
            const int32_t i = block_row_of(r, u, s);
            if (i >= 0) {
                block_depthwise_row(acc, p + i * s->ow * BLOCK_GROUP, w + u * s->kw * s->c, n, s);
            }
        }
        block_store(dx, dxe, at, s->c, acc, BLOCK_GROUP, s->w, n, exponent, bytes);
    }
}

ALWAYS_INLINE void block_depthwise_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const int8_t *w,
                                      const int16_t *share, const int16_t *k, const conv2d_shape *s, void *scratch,
                                      int32_t bytes)
{
    const int32_t groups = block_groups(s->c);
    int32_t *acc = (int32_t *)scratch;
    int16_t *p = (int16_t *)(void *)(acc + s->w * BLOCK_GROUP);
    for (int32_t part = 0; part < s->n * groups; part++) {
        const int32_t n = part / groups, group = part % groups, c = group * BLOCK_GROUP, width = block_width(c, s->c);
        const int8_t *e = ge + n * s->oh * groups + group;
        const int32_t highest = block_highest(e, s->oh, groups), exponent = block_exponent(highest, bytes) + k[group];
        const int32_t at = n * s->h * s->w * s->c + c;
        int8_t *to = dxe + n * s->h * groups + group;
        block_depthwise_pack(p, g, e, n * s->oh * s->ow * s->c + c, share + c, highest, width, s, bytes);
        block_depthwise_group(dx, to, at, p, w + c, width, exponent, s, acc, bytes);
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
