/* The definition of matrix_f32 and matrix_s8, and the same on vectors: see products.h. `wide` is 0 for an s8 b, 1 for
 * floats, MATRIX_ENDS for floats and a matrix_end. */
#ifndef INSITU_ISA_MATRIX_H
#define INSITU_ISA_MATRIX_H

#include "isa/fma.h"
#include "isa/inline.h"
#include "isa/lanes.h"
#include "kernels/linear/products.h"

enum { MATRIX_ENDS = 2 };

#ifdef INSITU_LANES
#include "isa/lanes/matrix.h"
#else

enum { MATRIX_COLUMNS = 4 };

/* some columns of one row, at most MATRIX_COLUMNS: a and the sums stay in registers */
ALWAYS_INLINE void matrix_some(const int wide, const int cols, float *y, const float *start, const matrix_run *runs,
                               int32_t count, int32_t zero, const matrix_shape *m, ptrdiff_t a_row, int32_t j)
{
    float acc[MATRIX_COLUMNS];
    UNROLL
    for (int c = 0; c < cols; c++) {
        acc[c] = start ? start[j + c] : 0.0f;
    }
    for (int32_t r = 0; r < count; r++) {
        const float *a = runs[r].a + a_row, *b = (const float *)runs[r].b + j;
        const int8_t *narrow = (const int8_t *)runs[r].b + j;
        for (int32_t k = 0; k < m->depth; k++, a += m->a_next, b += m->b_row, narrow += m->b_row) {
            UNROLL
            for (int c = 0; c < cols; c++) {
                acc[c] = fma_f32(*a, wide ? b[c] : (float)(narrow[c] - zero), acc[c]);
            }
        }
    }
    UNROLL
    for (int c = 0; c < cols; c++) {
        y[j + c] = acc[c];
    }
}

ALWAYS_INLINE void matrix_ended(float *y, const float *more, const matrix_end *end, int32_t cols)
{
    for (int32_t j = 0; j < cols; j++) {
        const float sum = more ? y[j] + more[j] : y[j], low = sum > end->lo ? sum : end->lo;
        y[j] = !end->clamps ? sum : low < end->hi ? low : end->hi;
    }
}

static inline void matrix_any(const int wide, float *y, const float *start, const matrix_run *runs, int32_t count,
                              int32_t zero, const matrix_end *end, const matrix_shape *m)
{
    for (int32_t p = 0; p < m->rows; p++, y += m->y_row) {
        const float *from = start ? start + p * m->start_row : NULL;
        int32_t j = 0;
        for (; j + MATRIX_COLUMNS <= m->cols; j += MATRIX_COLUMNS) {
            matrix_some(wide, MATRIX_COLUMNS, y, from, runs, count, zero, m, p * m->a_row, j);
        }
        for (; j < m->cols; j++) {
            matrix_some(wide, 1, y, from, runs, count, zero, m, p * m->a_row, j);
        }
        if (wide == MATRIX_ENDS) {
            matrix_ended(y, end->more ? end->more + (ptrdiff_t)p * m->y_row : NULL, end, m->cols);
        }
    }
}

#endif

#endif
