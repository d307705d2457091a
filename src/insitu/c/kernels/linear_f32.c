/* y[r,o] = b[o] + sum over i of w[o,i] x[r,i]; w as declared; b may be null. Not in place. */
#include "isa.h"
#include "kernels.h"

void linear_f32(float *y, const float *x, const float *w, const float *b, const linear_shape *s)
{
    for (int32_t r = 0; r < s->rows; r++, x += s->i) {
        for (int32_t o = 0; o < s->o; o++) {
            *y++ = (b ? b[o] : 0.0f) + dot_f32(x, w + o * s->i, s->i);
        }
    }
}
