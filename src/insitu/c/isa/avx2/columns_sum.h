/* columns_sum.h for wide vectors: a compiler makes them out of sums of a literal length. */
#ifndef INSITU_ISA_AVX2_COLUMNS_SUM_H
#define INSITU_ISA_AVX2_COLUMNS_SUM_H

#include "isa/inline.h"

/* a literal number of columns: a compiler keeps their sums in vectors */
ALWAYS_INLINE void wide_columns(int32_t *acc, const int16_t *p, const int8_t *w, int32_t n, int32_t row, int32_t cols)
{
    int32_t sums[32];
    for (int32_t c = 0; c < cols; c++) {
        sums[c] = acc[c];
    }
    for (int32_t o = 0; o < n; o++, w += row) {
        const int32_t x = p[o];
        for (int32_t c = 0; c < cols; c++) {
            sums[c] += x * w[c];
        }
    }
    for (int32_t c = 0; c < cols; c++) {
        acc[c] = sums[c];
    }
}

static inline void columns_s16s8(int32_t *acc, const int16_t *p, const int8_t *w, int32_t n, int32_t row, int32_t cols)
{
    for (; cols >= 32; cols -= 32, acc += 32, w += 32) {
        wide_columns(acc, p, w, n, row, 32);
    }
    for (; cols >= 8; cols -= 8, acc += 8, w += 8) {
        wide_columns(acc, p, w, n, row, 8);
    }
    scalar_columns_s16s8(acc, p, w, n, row, cols);
}

#endif
