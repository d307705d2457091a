/* y[p,j] = start[p,j] + sum over k of a[p,k] b[k,j], each a chain of fused multiply-adds: see products.h. */
#include "isa/matrix.h"
#include "kernels.h"

void matrix_f32(float *y, const float *start, const float *a, const float *b, const matrix_shape *m)
{
    matrix_any(1, y, start, a, b, 0, m);
}
