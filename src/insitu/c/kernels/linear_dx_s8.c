/* dx[r,i] = sum over o of g[r,o] w[o,i] with w = scale[o] * the integer weight, one chain of multiply-adds over o. Not in place. */
#include "isa/fma.h"
#include "kernels.h"

void linear_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, const linear_shape *s)
{
    clear_f32(dx, s->rows * s->i);
    for (int32_t r = 0; r < s->rows; r++, dx += s->i, g += s->o) {
        for (int32_t o = 0; o < s->o; o++) {
            fma_row_s8(dx, g[o] * scale[o], w + o * s->i, 0, s->i);
        }
    }
}
