/* The gradients of a convolution in block floating numbers, for mantissas of either width. See block.h. */
#ifndef INSITU_BLOCK_CONV_H
#define INSITU_BLOCK_CONV_H

#include "isa/columns_sum.h"
#include "kernels/shapes.h"
#include "numbers/block.h"

/* the output row that has tap u of its window on row r; -1 if there is none */
static inline int32_t block_row_of(int32_t r, int32_t u, const conv2d_shape *s)
{
    const int32_t at = r + s->pt - u * s->dh;
    return at >= 0 && at % s->sh == 0 && at / s->sh < s->oh ? at / s->sh : -1;
}

/* the largest exponent of the rows of g (an image's) that row r gathers from */
static inline int32_t block_window(const int8_t *ge, int32_t r, const conv2d_shape *s)
{
    const int32_t groups = block_groups(s->o);
    int32_t most = BLOCK_ZERO;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t i = block_row_of(r, u, s), found = i >= 0 ? block_highest(ge + i * groups, groups, 1) : most;
        most = found > most ? found : most;
    }
    return most;
}

/* p = g share / 2^d for one row of pixels, whose groups have these exponents */
ALWAYS_INLINE void block_scaled_row(int16_t *p, const void *g, const int8_t *ge, int32_t at, const int16_t *share,
                                    int32_t pixels, int32_t o, int32_t d, int32_t bytes)
{
    for (int32_t first = 0; first < o; first += BLOCK_GROUP, ge++) {
        const int32_t n = block_width(first, o), by = d - *ge;
        for (int32_t j = 0; j < pixels; j++) {
            for (int32_t k = first; k < first + n; k++) {
                p[j * o + k] = (int16_t)block_half_up(block_get(g, at + j * o + k, bytes) * share[k], by);
            }
        }
    }
}

/* p = g / 2^d for one row of pixels: `highest` has the largest exponent of each group, `drop` bits are always dropped
 * */
ALWAYS_INLINE void block_aligned_row(int16_t *p, const void *g, const int8_t *ge, int32_t at, const int8_t *highest,
                                     int32_t pixels, int32_t o, int32_t drop, int32_t bytes)
{
    for (int32_t first = 0; first < o; first += BLOCK_GROUP) {
        const int32_t n = block_width(first, o), d = drop + *highest++ - *ge++;
        for (int32_t j = 0; j < pixels; j++) {
            for (int32_t k = first; k < first + n; k++) {
                const int32_t v = block_get(g, at + j * o + k, bytes);
                p[j * o + k] = (int16_t)(d ? block_half_up(v, d) : v);
            }
        }
    }
}

/* the largest exponent of each group of channels of g; block_dw_exponents replaces it at the end */
static inline void block_group_highest(int8_t *highest, const int8_t *ge, int32_t rows, int32_t groups)
{
    for (int32_t k = 0; k < groups; k++) {
        highest[k] = (int8_t)block_highest(ge + k, rows, groups);
    }
}

ALWAYS_INLINE void block_dw_exponents(int8_t *dwe, int32_t groups, int32_t drop, int32_t bytes)
{
    for (int32_t k = 0; k < groups; k++) {
        dwe[k] = block_sum_exponent(block_exponent(dwe[k], bytes) + drop);
    }
}

/* acc[q,c] += the contribution of tap row u of the packed row p to pixel q */
static inline void block_gather(int32_t *acc, const int16_t *p, const int8_t *w, int32_t u, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups, row = s->kh * s->kw * ci;
    for (int32_t q = 0; q < s->w; q++) {
        for (int32_t v = 0; v < s->kw; v++) {
            const int32_t at = q + s->pl - v * s->dw, j = at / s->sw;
            if (at < 0 || at % s->sw || j >= s->ow) {
                continue;
            }
            for (int32_t group = 0; group < s->groups; group++) {
                const int8_t *from = w + group * og * row + (u * s->kw + v) * ci;
                columns_s16s8(acc + q * s->c + group * ci, p + j * s->o + group * og, from, og, row, ci);
            }
        }
    }
}

ALWAYS_INLINE void block_conv_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const int8_t *w,
                                 const int16_t *share, int32_t k, int32_t drop, const conv2d_shape *s, void *scratch,
                                 int32_t bytes)
{
    const int32_t og = block_groups(s->o), cg = block_groups(s->c);
    int32_t *acc = (int32_t *)scratch;
    int16_t *p = (int16_t *)(void *)(acc + s->w * s->c);
    for (int32_t line = 0; line < s->n * s->h; line++) {
        const int32_t n = line / s->h, r = line % s->h, highest = block_window(ge + n * s->oh * og, r, s);
        for (int32_t i = 0; i < s->w * s->c; i++) {
            acc[i] = 0;
        }
        for (int32_t u = 0; u < s->kh; u++) {
            const int32_t i = block_row_of(r, u, s), from = n * s->oh + i;
            if (i >= 0) {
                block_scaled_row(p, g, ge + from * og, from * s->ow * s->o, share, s->ow, s->o,
                                 BLOCK_SHARE + drop + highest, bytes);
                block_gather(acc, p, w, u, s);
            }
        }
        block_store_row(dx, dxe + line * cg, line * s->w * s->c, acc, s->w, s->c,
                        block_exponent(highest, bytes) + k + drop, bytes);
    }
}

enum { BLOCK_RUN = 32 }; /* channels of x that are centred at a time */

/* dw[o, tap of u,v, k] += p[o] (x - zero) for one pixel of g and of x */
static inline void block_outer(int32_t *dw, const int16_t *p, const int8_t *x, const int32_t *channels, int32_t count,
                               int32_t outputs, int32_t row, int32_t zero)
{
    for (int32_t first = 0; first < count; first += BLOCK_RUN, dw += BLOCK_RUN) {
        const int32_t n = count - first < BLOCK_RUN ? count - first : BLOCK_RUN;
        int16_t run[BLOCK_RUN];
        for (int32_t k = 0; k < n; k++) {
            run[k] = (int16_t)(x[channels ? channels[first + k] : first + k] - zero);
        }
        for (int32_t o = 0; o < outputs; o++) {
            axpy_s16(dw + o * row, p[o], run, n);
        }
    }
}

/* the contribution of one row of g, aligned, to all of dw; x is the image */
static inline void block_dw_row(int32_t *dw, const int16_t *p, const int8_t *x, const int32_t *channels, int32_t count,
                                int32_t i, int32_t zero, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups, row = s->kh * s->kw * count;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t y = i * s->sh + u * s->dh - s->pt;
        for (int32_t j = 0; y >= 0 && y < s->h && j < s->ow; j++) {
            for (int32_t v = 0; v < s->kw; v++) {
                const int32_t q = j * s->sw + v * s->dw - s->pl;
                for (int32_t group = 0; q >= 0 && q < s->w && group < s->groups; group++) {
                    block_outer(dw + group * og * row + (u * s->kw + v) * count, p + j * s->o + group * og,
                                x + (y * s->w + q) * s->c + group * ci, channels, count, og, row, zero);
                }
            }
        }
    }
}

ALWAYS_INLINE void block_conv_dw(int32_t *dw, int8_t *dwe, const void *g, const int8_t *ge, const int8_t *x,
                                 const int32_t *channels, int32_t count, int32_t zero, int32_t drop,
                                 const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t groups = block_groups(s->o);
    block_group_highest(dwe, ge, s->n * s->oh, groups);
    for (int32_t i = 0; i < s->o * s->kh * s->kw * count; i++) {
        dw[i] = 0;
    }
    for (int32_t line = 0; line < s->n * s->oh; line++) {
        block_aligned_row(scratch, g, ge + line * groups, line * s->ow * s->o, dwe, s->ow, s->o, drop, bytes);
        block_dw_row(dw, scratch, x + line / s->oh * s->h * s->w * s->c, channels, count, line % s->oh, zero, s);
    }
    block_dw_exponents(dwe, groups, drop, bytes);
}

#endif
