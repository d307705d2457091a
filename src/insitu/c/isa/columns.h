/* Columns of bytes as rows of pairs: what isa/pairs.h wants of a matrix that lies the other way round.
 *
 *   pairs_columns   four neighbouring columns of n bytes, each `row` bytes after the last, minus zero: two tasks'
 *                   weights, one after the other; columns that are not there are zeros
 *   pairs_column    one column, as the first or second row of a task's weights
 */
#ifndef INSITU_ISA_COLUMNS_H
#define INSITU_ISA_COLUMNS_H

#include "isa/pairs.h"

enum { PAIRS_COLUMNS = 4 };

/* where number i of row r (of `rows`) lies */
static inline int32_t pairs_place(int32_t i, int32_t r, int32_t rows)
{
    return ((i >> 2) * 2 * rows + (i & 1) * rows + r) * 2 + (i >> 1 & 1);
}

static inline void pairs_column(int16_t *to, int32_t r, const int8_t *x, int32_t row, int32_t zero, int32_t n)
{
    for (int32_t i = 0; i < n; i++, x += row) {
        to[pairs_place(i, r, PAIRS_OUTPUTS)] = (int16_t)(*x - zero);
    }
    for (int32_t i = n; i < pairs_length(n); i++) {
        to[pairs_place(i, r, PAIRS_OUTPUTS)] = 0;
    }
}

static inline void scalar_pairs_columns(int16_t *to, const int8_t *x, int32_t row, int32_t cols, int32_t zero, int32_t n)
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

#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && !defined(INSITU_SCALAR)
/* Four bytes of each of four rows are sixteen numbers: every second byte is widened at once, then the columns of two
 * rows are put together. What is left of n goes the slow way. */
static inline void arm_pairs_columns(int16_t *to, const int8_t *x, int32_t row, int32_t cols, int32_t zero, int32_t n)
{
    const uint32_t add = pair_of(-zero);
    uint32_t *a = (uint32_t *)(void *)to, *b = a + pairs_length(n);
    if (cols < PAIRS_COLUMNS || n % 4) {
        scalar_pairs_columns(to, x, row, cols, zero, n);
        return;
    }
    for (int32_t i = 0; i < n; i += 4, x += 4 * row, a += 4, b += 4) {
        const uint32_t r0 = word_at(x), r1 = word_at(x + row), r2 = word_at(x + 2 * row), r3 = word_at(x + 3 * row);
        const uint32_t e0 = widen_even(add, r0), e1 = widen_even(add, r1);
        const uint32_t e2 = widen_even(add, r2), e3 = widen_even(add, r3);
        const uint32_t o0 = widen_odd(add, r0), o1 = widen_odd(add, r1);
        const uint32_t o2 = widen_odd(add, r2), o3 = widen_odd(add, r3);
        a[0] = low_halves(e0, e2);
        a[1] = low_halves(o0, o2);
        a[2] = low_halves(e1, e3);
        a[3] = low_halves(o1, o3);
        b[0] = high_halves(e0, e2);
        b[1] = high_halves(o0, o2);
        b[2] = high_halves(e1, e3);
        b[3] = high_halves(o1, o3);
    }
}
#define pairs_columns arm_pairs_columns
#else
#define pairs_columns scalar_pairs_columns
#endif

#endif
