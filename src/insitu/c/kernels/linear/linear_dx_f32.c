/* dx[r,i] = sum over o of g[r,o] w[o,i], one chain of multiply-adds over o. Not in place. */
#include "kernels.h"

void linear_dx_f32(float *dx, const float *g, const float *w, const linear_shape *s)
{
    const matrix_shape m = {s->rows, s->i, s->o, s->i, 0, s->o, 1, s->i};
    matrix_f32(dx, NULL, g, w, &m);
}
