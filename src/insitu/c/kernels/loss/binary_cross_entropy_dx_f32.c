/* dx = g (sigmoid(x) - target) / elements. In place over x allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void binary_cross_entropy_dx_f32(float *dx, const float *g, const float *x, const float *target, int32_t n)
{
    const float scale = *g / (float)n;
    for (int32_t i = 0; i < n; i++) {
        dx[i] = scale * (insitu_sigmoidf(x[i]) - target[i]);
    }
}
