/* Columns of bytes as rows of pairs: how isa/pairs.h takes a transposed matrix.
 *
 *   pairs_columns   four neighbouring columns of n bytes, each `row` bytes after the last, minus zero: two tasks'
 *                   weights, one after the other; missing columns are zeros
 *   pairs_column    one column, as the first or second row of a task's weights
 */
#ifndef INSITU_ISA_COLUMNS_H
#define INSITU_ISA_COLUMNS_H

#include "isa/machine.h"
#include "isa/pairs.h"

enum { PAIRS_COLUMNS = 4 };

/* where number i of row r (of `rows`) lies */
static inline int32_t pairs_place(int32_t i, int32_t r, int32_t rows)
{
    return ((i >> 2) * 2 * rows + (i & 1) * rows + r) * 2 + (i >> 1 & 1);
}

static inline void scalar_pairs_column(int16_t *to, int32_t r, const int8_t *x, int32_t row, int32_t zero, int32_t n)
{
    for (int32_t i = 0; i < n; i++, x += row) {
        to[pairs_place(i, r, PAIRS_OUTPUTS)] = (int16_t)(*x - zero);
    }
    for (int32_t i = n; i < pairs_length(n); i++) {
        to[pairs_place(i, r, PAIRS_OUTPUTS)] = 0;
    }
}

#if INSITU_DSP
#include "isa/dsp/column.h"
#else
#define pairs_column scalar_pairs_column
#endif

static inline void scalar_pairs_columns(int16_t *to, const int8_t *x, int32_t row, int32_t cols, int32_t zero,
                                        int32_t n)
{
    for (int32_t j = 0; j < PAIRS_COLUMNS; j++) {
        int16_t *half = to + j / PAIRS_OUTPUTS * PAIRS_OUTPUTS * pairs_length(n);
        if (j < cols) {
            pairs_column(half, j % PAIRS_OUTPUTS, x + j, row, zero, n);
        }
        for (int32_t i = 0; j >= cols && i < pairs_length(n); i++) {
            half[pairs_place(i, j % PAIRS_OUTPUTS, PAIRS_OUTPUTS)] = 0;
        }
    }
}

#if INSITU_DSP
#include "isa/dsp/columns.h"
#else
#define pairs_columns scalar_pairs_columns
#endif

#endif
