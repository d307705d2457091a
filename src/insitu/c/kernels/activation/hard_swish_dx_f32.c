/* dx = 0 where x <= -3, g where x >= 3, else g (x / 3 + 1 / 2), n elements. In place over g allowed. */
#include "kernels.h"

void hard_swish_dx_f32(float *dx, const float *g, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const float slope = x[i] >= 3.0f ? 1.0f : x[i] / 3.0f + 0.5f;
        dx[i] = x[i] <= -3.0f ? 0.0f : g[i] * slope;
    }
}
