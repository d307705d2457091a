/* y = x where x > 0, else slope * x, n elements. In place allowed. */
#include "kernels.h"

void leaky_relu_f32(float *y, const float *x, int32_t n, float slope)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
    }
}
