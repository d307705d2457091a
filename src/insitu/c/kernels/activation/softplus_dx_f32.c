/* dx = g sigmoid(x), n elements. In place over g allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void softplus_dx_f32(float *dx, const float *g, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        dx[i] = g[i] * insitu_sigmoidf(x[i]);
    }
}
