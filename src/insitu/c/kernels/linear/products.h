/* The matrix product that all dense ops use. */
#ifndef INSITU_PRODUCTS_H
#define INSITU_PRODUCTS_H

#include <stdint.h>

/* y[p,j] = start[p,j] + sum over k of a[p,k] b[k,j] for p < rows, j < cols, k < depth, where
 *   y[p,j]      is at y + p y_row + j
 *   start[p,j]  at start + p start_row + j; a null start is zero, y itself continues an earlier product
 *   a[p,k]      at a + p a_row + k a_next
 *   b[k,j]      at b + k b_row + j; an s8 b means b - zero
 * Each y is one chain of fused multiply-adds over k, in order: the same bits on every machine.
 */
typedef struct {
    int32_t rows, cols, depth, y_row, start_row, a_row, a_next, b_row;
} matrix_shape;

enum { PANEL = 64 }; /* outputs whose weights are packed or transposed together */

/* a and b of one of several products that are summed in order; b is s8 if the function says so */
typedef struct {
    const float *a;
    const void *b;
} matrix_run;

/* what becomes of a finished y[p,j]: min(max(y + more, lo), hi) with more[p,j] at more + p y_row + j; null is zero. Without
 * a range it does not clamp, so that what is not a number stays so. */
typedef struct {
    const float *more;
    float lo, hi;
    int32_t clamps;
} matrix_end;

static inline matrix_end end_of(const float *more, float lo, float hi)
{
    const float most = 1.0f / 0.0f;
    const matrix_end end = {more, lo, hi, lo > -most || hi < most};
    return end;
}

/* Blocks of four by four floats: y[p,j] = (y[p,j] or 0) + sum over k of a[p/4][k][p%4] b[k][j] for p < 4 blocks, j < 4,
 * k < depth, each a chain of fused multiply-adds over k. Operands are in panels of four. `y_row` is in bytes; with
 * `go_on`, sums start from y. Assembler depends on this layout.
 */
enum { FOUR = 4, FOUR_FLOATS = 16 };

typedef struct {
    const float *a, *b;
    float *y;
    int32_t y_row, depth, blocks, go_on;
} fours_task;

#endif
