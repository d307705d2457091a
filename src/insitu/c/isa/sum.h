/* y = clamp((ma (a - a_zero) + mb (b - b_zero) + half) >> shift) + y_zero) along a run, and where it was not clamped:
 * see sum_s8. `mask` gets one bit per element, starting at a byte; null if there is none. In place allowed.
 */
#ifndef INSITU_ISA_SUM_H
#define INSITU_ISA_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "isa/machine.h"
#include "kernels/pointwise/quants.h"
#include "numbers/fixed.h"

static inline int32_t sum_value(int32_t a, int32_t b, const sum_quant *q)
{
    const int32_t acc = q->ma * (a - q->a_zero) + q->mb * (b - q->b_zero) + (1 << (q->shift - 1));
    return (acc >> q->shift) + q->y_zero;
}

static inline void scalar_sum_run(int8_t *y, const int8_t *a, const int8_t *b, int32_t n, const sum_quant *quant)
{
    const sum_quant q = *quant;
    for (int32_t i = 0; i < n; i++) {
        y[i] = fixed_clamp(sum_value(a[i], b[i], &q), q.lo, q.hi);
    }
}

static inline void scalar_sum_masked(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, int32_t n,
                                     const sum_quant *q)
{
    uint32_t bits = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = sum_value(a[i], b[i], q);
        y[i] = fixed_clamp(v, q->lo, q->hi);
        bits |= (uint32_t)(v == y[i]) << (i & 7);
        if ((i & 7) == 7 || i == n - 1) {
            mask[i >> 3] = (uint8_t)bits;
            bits = 0;
        }
    }
}

#if INSITU_HELIUM
#include "isa/helium/sum.h"
#elif INSITU_DSP
#include "isa/dsp/sum.h"
#else
#define sum_run scalar_sum_run
#define sum_masked scalar_sum_masked
#endif

#endif
