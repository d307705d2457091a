/* dx = g slope[x + 128], n elements. In place over g allowed. */
#include "kernels.h"

void lut_dx_s8(float *dx, const float *g, const int8_t *x, const float *slope, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        dx[i] = g[i] * slope[x[i] + 128];
    }
}
