/* dx = g (Phi(x) + x phi(x)), Phi the normal distribution and phi its density, n elements. In place over g allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void gelu_dx_f32(float *dx, const float *g, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const float t = insitu_clamp(x[i], -20.0f, 20.0f);
        const float slope = 0.5f * (1.0f + insitu_erff(t * 0.707106781f)) + t * 0.398942280f * insitu_expf(-0.5f * t * t);
        dx[i] = g[i] * slope;
    }
}
