/* Sums of integers over rows, for machines that take many columns at a time and for those that take few.
 *
 *   columns_s16s8   acc[c] += sum over n rows of p[o] w[o, c], rows of w `row` bytes apart
 *   axpy_s16        y[k] += a x[k]
 *
 * Integers: any order gives the same bytes.
 */
#ifndef INSITU_ISA_COLUMNS_SUM_H
#define INSITU_ISA_COLUMNS_SUM_H

#include <stdint.h>

#include "isa/inline.h"
#include "isa/machine.h"

/* four columns stay in the registers of a small machine */
static inline void scalar_columns_s16s8(int32_t *acc, const int16_t *p, const int8_t *w, int32_t n, int32_t row,
                                        int32_t cols)
{
    for (; cols >= 4; cols -= 4, acc += 4, w += 4) {
        const int8_t *from = w;
        int32_t a = acc[0], b = acc[1], c = acc[2], d = acc[3];
        for (int32_t o = 0; o < n; o++, from += row) {
            const int32_t x = p[o];
            a += x * from[0];
            b += x * from[1];
            c += x * from[2];
            d += x * from[3];
        }
        acc[0] = a, acc[1] = b, acc[2] = c, acc[3] = d;
    }
    for (int32_t o = 0; o < n; o++, w += row) {
        for (int32_t c = 0; c < cols; c++) {
            acc[c] += p[o] * w[c];
        }
    }
}

static inline void axpy_s16(int32_t *y, int32_t a, const int16_t *x, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        y[k] += a * x[k];
    }
}

#if INSITU_AVX2
#include "isa/avx2/columns_sum.h"
#else
#define columns_s16s8 scalar_columns_s16s8
#endif

#endif
