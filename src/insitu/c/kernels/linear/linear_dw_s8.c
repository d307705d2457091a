/* dw[o,i] = scale * sum over r of g[r,o] (x[r,i] - zero), the sum one chain of multiply-adds over r. Not in place. */
#include "isa/fma.h"
#include "kernels.h"

void linear_dw_s8(float *dw, const float *g, const int8_t *x, float scale, int32_t zero, const linear_shape *s)
{
    const matrix_shape m = {s->o, s->i, s->rows, s->i, 0, 1, s->o, s->i};
    matrix_s8(dw, NULL, g, x, zero, &m);
    scale_f32(dw, scale, s->o * s->i);
}
