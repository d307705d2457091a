/* dx = alpha g where lo < x < hi, else 0, n elements. In place over g allowed. */
#include "kernels.h"

void hard_sigmoid_dx_f32(float *dx, const float *g, const float *x, int32_t n, float alpha, float lo, float hi)
{
    for (int32_t i = 0; i < n; i++) {
        dx[i] = x[i] > lo && x[i] < hi ? alpha * g[i] : 0.0f;
    }
}
