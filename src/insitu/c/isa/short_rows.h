/* Is a product of `rows` rows and `cols` columns over many short runs (matrix_runs) faster than one over rows that are
 * copied together first? A block of outputs in registers starts each run anew, so blocks must be full: where rows are
 * many, or fill blocks without rest.
 */
#ifndef INSITU_ISA_SHORT_ROWS_H
#define INSITU_ISA_SHORT_ROWS_H

#include "isa/inline.h"
#include "isa/lanes.h"

enum { SHORT_ROWS = 16 };

#ifdef INSITU_LANES
static inline int short_rows(int32_t rows, int32_t cols)
{
    const int32_t block = MATRIX_ROWS_4 ? MATRIX_ROWS_4 : rows + 1;
    return rows >= SHORT_ROWS || (rows % block == 0 && cols % (4 * LANES) == 0);
}
#else
static inline int short_rows(int32_t rows, int32_t cols)
{
    (void)rows;
    (void)cols;
    return 0;
}
#endif

#endif
