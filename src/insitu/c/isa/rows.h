/* add_rows(y, x, rows, n): y[o] = sum over r of x[r,o], added in the order of r, from zero. */
#ifndef INSITU_ISA_ROWS_H
#define INSITU_ISA_ROWS_H

#include <stdint.h>

#include "isa/fma.h"
#include "isa/machine.h"

static inline void scalar_add_rows(float *y, const float *x, int32_t rows, int32_t n, int32_t row)
{
    clear_f32(y, n);
    for (int32_t r = 0; r < rows; r++, x += row) {
        for (int32_t o = 0; o < n; o++) {
            y[o] += x[o];
        }
    }
}

#if INSITU_DSP_FLOATS
#include "isa/dsp/rows.h"
#else
static inline void add_rows(float *y, const float *x, int32_t rows, int32_t n)
{
    scalar_add_rows(y, x, rows, n, n);
}
#endif

#endif
