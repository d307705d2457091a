/* Updates by integer gradients, element by element: m sums of products, times whole / 2^shift.
 *
 *   step_sizes(m, end, row, n)                sizes, or-ed, of runs of n numbers, one run per row, from m to the end
 *   step_squares(m, end, row, n, d)           the sum of the squares of size / 2^d, below 2^15 each
 *   step_residual(w, r, m, n, whole, shift)   w + r/256 -= step_of(m) / 256, within +-127; returns how many saturate
 */
#ifndef INSITU_ISA_STEPS_H
#define INSITU_ISA_STEPS_H

#include "isa/machine.h"
#include "numbers/block.h"

enum { STEP_UPPER = 26 }; /* from this shift on, the result of a product is in its upper word */
enum { STEP_LEAST = 15, STEP_UP = 11, STEP_BITS = 19 }; /* for step_residual: all steps beyond 2^16 are alike */

/* round(m whole / 2^shift), halves up, for |whole| < 2^24 and shift >= STEP_UPPER; below 2^30 */
ALWAYS_INLINE int32_t step_of(int32_t m, int32_t whole, int32_t shift)
{
    const int32_t upper = (int32_t)(((int64_t)m * (whole * 128)) >> 32);
    return ((upper >> (shift < STEP_UPPER + 31 ? shift - STEP_UPPER : 31)) + 1) >> 1;
}

/* w + r/256 becomes `now`, in 1/256; whether it saturates */
ALWAYS_INLINE int32_t step_put(int8_t *w, int8_t *r, int32_t now)
{
    const int32_t most = 127 * 256, up = now < -most ? -most : now, kept = up > most ? most : up;
    *w = (int8_t)((kept + 128) >> 8);
    *r = (int8_t)kept; /* the rest is its lowest byte */
    return now != kept;
}

static inline uint32_t scalar_step_sizes(const int32_t *m, const int32_t *end, int32_t row, int32_t n)
{
    uint32_t sizes = 0;
    for (; m < end; m += row) {
        for (int32_t i = 0; i < n; i++) {
            sizes |= block_size_of(m[i]);
        }
    }
    return sizes;
}

static inline uint64_t scalar_step_squares(const int32_t *m, const int32_t *end, int32_t row, int32_t n, int32_t d)
{
    uint64_t total = 0;
    for (; m < end; m += row) {
        for (int32_t i = 0; i < n; i++) {
            const uint32_t size = block_size_of(m[i]) >> d;
            total += size * size;
        }
    }
    return total;
}

/* Every `apart`th number of w, r and m. `wide`, a literal: whether shift is from STEP_LEAST to STEP_UPPER, where a step
 * beyond 2^16 may be any other such. */
ALWAYS_INLINE int32_t step_each(int8_t *w, int8_t *r, const int32_t *m, int32_t apart, int32_t n, int32_t whole,
                                int32_t shift, int32_t wide)
{
    const int32_t most = (1 << STEP_BITS) - 1, all = n * apart;
    int32_t saturated = 0;
    for (int32_t i = 0; i < all; i += apart) {
        const int32_t low = m[i] < most ? m[i] : most, within = (low > -most ? low : -most) * (1 << STEP_UP);
        const int32_t step = wide ? step_of(within, whole, shift + STEP_UP) : step_of(m[i], whole, shift);
        saturated += step_put(w + i, r + i, w[i] * 256 + r[i] - step);
    }
    return saturated;
}

/* step_residual does contiguous ones */
APART int32_t step_residual_apart(int8_t *w, int8_t *r, const int32_t *m, int32_t apart, int32_t n, int32_t whole,
                                  int32_t shift)
{
    return shift < STEP_UPPER ? step_each(w, r, m, apart, n, whole, shift, 1)
                              : step_each(w, r, m, apart, n, whole, shift, 0);
}

static inline int32_t scalar_step_residual(int8_t *w, int8_t *r, const int32_t *m, int32_t n, int32_t whole,
                                           int32_t shift)
{
    return shift < STEP_UPPER ? step_each(w, r, m, 1, n, whole, shift, 1) : step_each(w, r, m, 1, n, whole, shift, 0);
}

#if INSITU_DSP
#include "isa/dsp/steps.h"
#else
#define step_sizes scalar_step_sizes
#define step_squares scalar_step_squares
#define step_residual scalar_step_residual
#endif

#endif
