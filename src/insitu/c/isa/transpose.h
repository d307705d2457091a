/* y[j,i] = x[i,j] for i < rows, j < cols; rows are y_row and x_row floats apart. */
#ifndef INSITU_ISA_TRANSPOSE_H
#define INSITU_ISA_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

#include "isa/machine.h"

#if INSITU_AVX512_GATHER
#include "isa/avx512/transpose.h"
#else
static inline void transpose_f32(float *y, int32_t y_row, const float *x, int32_t x_row, int32_t rows, int32_t cols)
{
    for (int32_t i = 0; i < rows; i++, x += x_row) {
        for (int32_t j = 0; j < cols; j++) {
            y[(ptrdiff_t)j * y_row + i] = x[j];
        }
    }
}
#endif

#endif
