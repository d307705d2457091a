/* Bytes at any addresses, which must not overlap.
 *
 *   copy_run(to, from, n)                 n bytes
 *   copy_rows(to, from, n, rows, step)    `rows` runs of n bytes, `step` apart in `from`, one after the other in `to`
 *   copy_column(to, row, from, step, n)   n bytes, `step` apart in `from`, `row` apart in `to`
 */
#ifndef INSITU_ISA_COPY_H
#define INSITU_ISA_COPY_H

#include <stdint.h>

#include "isa/machine.h"

static inline void scalar_copy_column(uint8_t *to, int32_t row, const uint8_t *from, int32_t step, int32_t n)
{
    for (; n > 0; n--, to += row, from += step) {
        *to = *from;
    }
}

#if INSITU_DSP_WORDS
#include "isa/dsp/copy.h"
#else
#define copy_column scalar_copy_column

static inline void copy_run(void *y, const void *x, int32_t n)
{
    char *to = y;
    const char *from = x;
    for (int32_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

static inline void copy_rows(int8_t *to, const int8_t *from, int32_t n, int32_t rows, int32_t step)
{
    for (; rows > 0; rows--, to += n, from += step) {
        copy_run(to, from, n);
    }
}
#endif

#endif
