/* Mantissas multiplied, rounded and laid out for sums; and sums that become mantissas. `bytes` is the size of a
 * mantissa, a literal; a one-byte mantissa is read as 256 times itself. `step` counts numbers from pixel to pixel.
 *
 *   mantissas_pairs    p of four pixels as four rows of pairs.h, n channels, a multiple of four
 *   mantissas_scaled   p of some pixels of n channels, at most a group, BLOCK_GROUP numbers per pixel
 *   mantissas_reach    the bits that runs of sums need
 *   mantissas_put      runs of sums become mantissas, four channels at a time
 *   mantissas_groups   sums of a group of channels, pixel by pixel, become mantissas
 *
 * p = g share / 2^d, to the nearest, halves up, for 9 <= d; |share| < 2^15.
 */
#ifndef INSITU_ISA_MANTISSAS_H
#define INSITU_ISA_MANTISSAS_H

#include "isa/columns.h"
#include "isa/machine.h"
#include "numbers/block.h"

enum { MANTISSAS = 4 };

ALWAYS_INLINE int16_t scalar_mantissa(const void *g, int32_t at, int32_t share, int32_t d, int32_t bytes)
{
    return (int16_t)block_half_up(block_get(g, at, bytes) * share, d);
}

ALWAYS_INLINE void scalar_mantissas_pairs(int16_t *to, const void *g, int32_t at, int32_t step, const int16_t *share,
                                          int32_t d, int32_t n, int32_t bytes)
{
    for (int32_t r = 0; r < PAIRS_PIXELS; r++, at += step) {
        for (int32_t k = 0; k < n; k++) {
            to[pairs_place(k, r, PAIRS_PIXELS)] = scalar_mantissa(g, at + k, share[k], d, bytes);
        }
    }
}

ALWAYS_INLINE void scalar_mantissas_scaled(int16_t *to, const void *g, int32_t at, int32_t step, const int16_t *share,
                                           int32_t d, int32_t pixels, int32_t n, int32_t bytes)
{
    for (int32_t i = 0; i < pixels; i++, at += step, to += BLOCK_GROUP) {
        for (int32_t k = 0; k < n; k++) {
            to[k] = scalar_mantissa(g, at + k, share[k], d, bytes);
        }
    }
}

/* of runs of n sums each, which start at x + where[..] */
static inline uint32_t scalar_mantissas_reach(const int32_t *x, const int32_t *where, int32_t runs, int32_t n)
{
    uint32_t reach = 0;
    for (int32_t k = 0; k < runs; k++) {
        for (int32_t i = 0; i < n; i++) {
            reach |= block_reach(x[where[k] + i]);
        }
    }
    return reach;
}

/* m[at + p step + k] = x[where[k] + p] / 2^d, halves up, at most the largest mantissa; d > 0, four channels */
ALWAYS_INLINE void scalar_mantissas_put(void *m, int32_t at, int32_t step, const int32_t *x, const int32_t *where,
                                        int32_t n, int32_t d, int32_t bytes)
{
    for (int32_t p = 0; p < n; p++, at += step) {
        for (int32_t k = 0; k < MANTISSAS; k++) {
            block_put(m, at + k, block_short(x[where[k] + p], d, bytes), bytes);
        }
    }
}

/* m[at + p step + k] = x[p BLOCK_GROUP + k] / 2^d in the same way */
ALWAYS_INLINE void scalar_mantissas_groups(void *m, int32_t at, int32_t step, const int32_t *x, int32_t pixels,
                                           int32_t d, int32_t bytes)
{
    for (int32_t p = 0; p < pixels; p++, at += step, x += BLOCK_GROUP) {
        for (int32_t k = 0; k < BLOCK_GROUP; k++) {
            block_put(m, at + k, block_short(x[k], d, bytes), bytes);
        }
    }
}

#if INSITU_DSP
#include "isa/dsp/mantissas.h"
#else
#define mantissas_pairs scalar_mantissas_pairs
#define mantissas_scaled scalar_mantissas_scaled
#define mantissas_reach scalar_mantissas_reach
#define mantissas_put scalar_mantissas_put
#define mantissas_groups scalar_mantissas_groups
#endif

#endif
