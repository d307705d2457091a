/* y[p,j] = start[p,j] + sum over k of a[p,k] b[k,j], each a chain of fused multiply-adds: see products.h. */
#include "isa/matrix.h"
#include "kernels.h"

void matrix_s8(float *y, const float *start, const float *a, const int8_t *b, int32_t zero, const matrix_shape *m)
{
    matrix_any(0, y, start, a, b, zero, m);
}
