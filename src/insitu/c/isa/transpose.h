/* y[j,i] = x[i,j] for i < rows, j < cols; rows are y_row and x_row floats apart. */
#ifndef INSITU_ISA_TRANSPOSE_H
#define INSITU_ISA_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

#include "isa/machine.h"

/* rows first..last-1 and columns left..right-1 of it */
static inline void transpose_rest(float *y, int32_t y_row, const float *x, int32_t x_row, int32_t first, int32_t last,
                                  int32_t left, int32_t right)
{
    for (int32_t i = first; i < last; i++) {
        for (int32_t j = left; j < right; j++) {
            y[(ptrdiff_t)j * y_row + i] = x[(ptrdiff_t)i * x_row + j];
        }
    }
}

#if INSITU_AVX2
#include "isa/avx2/transpose.h"
#else
static inline void transpose_f32(float *y, int32_t y_row, const float *x, int32_t x_row, int32_t rows, int32_t cols)
{
    transpose_rest(y, y_row, x, x_row, 0, rows, 0, cols);
}
#endif

#endif
