/* dx = g where x > 0, else slope g, n elements. In place over g allowed. */
#include "kernels.h"

void leaky_relu_dx_f32(float *dx, const float *g, const float *x, int32_t n, float slope)
{
    for (int32_t i = 0; i < n; i++) {
        dx[i] = x[i] > 0.0f ? g[i] : slope * g[i];
    }
}
