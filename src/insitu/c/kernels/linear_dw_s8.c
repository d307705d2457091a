/* dw[o,i] = sum over r of g[r,o] x[r,i] with x = scale * (the integer - zero), one chain of multiply-adds over r. Not in place. */
#include "isa/fma.h"
#include "kernels.h"

void linear_dw_s8(float *dw, const float *g, const int8_t *x, float scale, int32_t zero, const linear_shape *s)
{
    clear_f32(dw, s->o * s->i);
    for (int32_t o = 0; o < s->o; o++, dw += s->i) {
        for (int32_t r = 0; r < s->rows; r++) {
            fma_row_s8(dw, g[r * s->o + o], x + r * s->i, zero, s->i);
        }
        scale_f32(dw, scale, s->i);
    }
}
