/* y[i] += x[i] + x[row+i] + x[2 row+i] + ..: n floats of some rows, one after the other. */
#ifndef INSITU_ISA_ADD_ROWS_H
#define INSITU_ISA_ADD_ROWS_H

#include "isa/inline.h"
#include "isa/lanes.h"

#ifdef INSITU_LANES
#include "isa/lanes/add_rows.h"
#else
static inline void add_rows_f32(float *y, const float *x, int32_t row, int32_t rows, int32_t n)
{
    for (int32_t r = 0; r < rows; r++, x += row) {
        for (int32_t i = 0; i < n; i++) {
            y[i] += x[i];
        }
    }
}
#endif

#endif
