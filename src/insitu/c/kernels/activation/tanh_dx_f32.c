/* dx = g (1 - y^2), n elements. In place over g allowed. */
#include "kernels.h"

void tanh_dx_f32(float *dx, const float *g, const float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        dx[i] = g[i] * (1.0f - y[i] * y[i]);
    }
}
