/* dx[r,i] = sum over o of g[r,o] w[o,i], one chain of multiply-adds over o. Not in place. */
#include "isa/fma.h"
#include "kernels.h"

void linear_dx_f32(float *dx, const float *g, const float *w, const linear_shape *s)
{
    clear_f32(dx, s->rows * s->i);
    for (int32_t r = 0; r < s->rows; r++, dx += s->i, g += s->o) {
        for (int32_t o = 0; o < s->o; o++) {
            fma_row_f32(dx, g[o], w + o * s->i, s->i);
        }
    }
}
