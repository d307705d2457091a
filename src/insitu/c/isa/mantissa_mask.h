/* y[i] = m[i] where bit i of the mask is one, else 0: n mantissas from number `at` on, n bits from a byte on. In place
 * allowed. `bytes` is the size of a mantissa, a literal. Rows of an odd number of mantissas begin between two words,
 * where no core loads several words at once.
 */
#ifndef INSITU_ISA_MANTISSA_MASK_H
#define INSITU_ISA_MANTISSA_MASK_H

#include "isa/machine.h"
#include "numbers/block.h"

ALWAYS_INLINE void scalar_mask_mantissas(void *y, const void *m, const uint8_t *mask, int32_t at, int32_t n,
                                         int32_t bytes)
{
    for (int32_t i = 0; i < n; i++) {
        block_put(y, at + i, block_raw(m, at + i, bytes) & -((mask[i >> 3] >> (i & 7)) & 1), bytes);
    }
}

#if INSITU_DSP
#include "isa/dsp/mantissa_mask.h"
#else
#define mask_mantissas scalar_mask_mantissas
#endif

#endif
