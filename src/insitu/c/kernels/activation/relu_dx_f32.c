/* dx = g where y > 0, else 0, n elements. In place over g allowed. */
#include "kernels.h"

void relu_dx_f32(float *dx, const float *g, const float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        dx[i] = y[i] > 0.0f ? g[i] : 0.0f;
    }
}
