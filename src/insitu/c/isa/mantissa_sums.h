/* mantissa_sums(sums, m, at, step, e, apart, up, rows, pixels, n, bytes): sums[k] += the sum over rows and their pixels
 * of 2^(e + up) times mantissa k as it is stored, for n channels; mantissas from number `at` on, `step` from pixel to
 * pixel, rows one after the other, exponents `apart`. Rows whose e + up is not within 0..MANTISSA_UP add nothing.
 * `bytes` is the size of a mantissa, a literal.
 */
#ifndef INSITU_ISA_MANTISSA_SUMS_H
#define INSITU_ISA_MANTISSA_SUMS_H

#include "isa/machine.h"
#include "numbers/block.h"

enum { MANTISSA_UP = 14 };

ALWAYS_INLINE void scalar_mantissa_sums(int32_t *sums, const void *m, int32_t at, int32_t step, const int8_t *e,
                                        int32_t apart, int32_t up, int32_t rows, int32_t pixels, int32_t n,
                                        int32_t bytes)
{
    for (int32_t r = 0; r < rows; r++, e += apart, at += pixels * step) {
        const int32_t by = *e + up;
        for (int32_t p = 0; p < pixels && by >= 0 && by <= MANTISSA_UP; p++) {
            for (int32_t k = 0; k < n; k++) {
                sums[k] += block_raw(m, at + p * step + k, bytes) * (1 << by);
            }
        }
    }
}

#if INSITU_DSP
#include "isa/dsp/mantissa_sums.h"
#else
#define mantissa_sums scalar_mantissa_sums
#endif

#endif
