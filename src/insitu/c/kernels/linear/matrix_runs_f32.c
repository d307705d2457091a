/* y[p,j] = start[p,j] + sum over runs and k of a[p,k] b[k,j], each a chain of fused multiply-adds: see products.h. */
#include "isa/matrix.h"
#include "kernels.h"

void matrix_runs_f32(float *y, const float *start, const matrix_run *runs, int32_t count, const matrix_shape *m)
{
    matrix_any(1, y, start, runs, count, 0, NULL, m);
}
