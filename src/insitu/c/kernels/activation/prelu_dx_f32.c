/* dx = g where x > 0, else slope g; slope broadcasts against x. In place over g allowed. */
#include "kernels.h"
#include "kernels/pointwise/pair.h"

void prelu_dx_f32(float *dx, const float *g, const float *x, const float *slope, const pair_shape *s)
{
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, dx += s->n, g += s->n) {
        const float *from = x + at.a, *steep = slope + at.b;
        for (int32_t i = 0; i < s->n; i++) {
            dx[i] = from[i * s->a_step] > 0.0f ? g[i] : steep[i * s->b_step] * g[i];
        }
        pair_next(&at, s);
    }
}
