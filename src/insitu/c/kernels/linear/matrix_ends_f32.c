/* y[p,j] = min(max(start[p,j] + sum over runs and k of a[p,k] b[k,j] + more[p,j], lo), hi): see products.h. */
#include "isa/matrix.h"
#include "kernels.h"

void matrix_ends_f32(float *y, const float *start, const matrix_run *runs, int32_t count, const matrix_end *end,
                     const matrix_shape *m)
{
    matrix_any(MATRIX_ENDS, y, start, runs, count, 0, end, m);
}
