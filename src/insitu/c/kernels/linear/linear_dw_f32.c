/* dw[o,i] = sum over r of g[r,o] x[r,i], one chain of multiply-adds over r. Not in place. */
#include "kernels.h"

void linear_dw_f32(float *dw, const float *g, const float *x, const linear_shape *s)
{
    const matrix_shape m = {s->o, s->i, s->rows, s->i, 0, 1, s->o, s->i};
    matrix_f32(dw, NULL, g, x, &m);
}
