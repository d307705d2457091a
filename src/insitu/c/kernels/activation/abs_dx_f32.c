/* dx = g sign(x), 0 at 0, n elements. In place over g allowed. */
#include "kernels.h"

void abs_dx_f32(float *dx, const float *g, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        dx[i] = x[i] > 0.0f ? g[i] : x[i] < 0.0f ? -g[i] : 0.0f;
    }
}
