/* dx = g s (1 + x (1 - s)), s = sigmoid(x), n elements. In place over g allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void silu_dx_f32(float *dx, const float *g, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const float s = insitu_sigmoidf(x[i]), rest = insitu_sigmoidf(-x[i]);
        dx[i] = g[i] * s * (1.0f + x[i] * rest);
    }
}
