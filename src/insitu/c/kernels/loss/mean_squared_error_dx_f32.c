/* dx = 2 g (x - target) / elements. In place over x allowed. */
#include "kernels.h"

void mean_squared_error_dx_f32(float *dx, const float *g, const float *x, const float *target, int32_t n)
{
    const float scale = 2.0f * *g / (float)n;
    for (int32_t i = 0; i < n; i++) {
        dx[i] = scale * (x[i] - target[i]);
    }
}
