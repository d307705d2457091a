/* y[p,j] = start[p,j] + sum over k of a[p,k] b[k,j], each a chain of fused multiply-adds: see products.h. */
#include "kernels.h"

void matrix_f32(float *y, const float *start, const float *a, const float *b, const matrix_shape *m)
{
    const matrix_run run = {a, b};
    matrix_runs_f32(y, start, &run, 1, m);
}
