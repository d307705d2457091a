/* y[p,j] = start[p,j] + sum over k of a[p,k] (b[k,j] - zero), each a chain of fused multiply-adds: see products.h. */
#include "isa/matrix.h"
#include "kernels.h"

void matrix_s8(float *y, const float *start, const float *a, const int8_t *b, int32_t zero, const matrix_shape *m)
{
    const matrix_run run = {a, b};
    matrix_any(0, y, start, &run, 1, zero, NULL, m);
}
