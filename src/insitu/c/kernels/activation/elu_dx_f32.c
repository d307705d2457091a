/* dx = g where x > 0, else g alpha exp(x), n elements. In place over g allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void elu_dx_f32(float *dx, const float *g, const float *x, int32_t n, float alpha)
{
    for (int32_t i = 0; i < n; i++) {
        dx[i] = x[i] > 0.0f ? g[i] : g[i] * alpha * insitu_expf(x[i]);
    }
}
