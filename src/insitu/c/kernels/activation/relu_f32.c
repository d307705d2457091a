/* y = max(x, 0), n elements. In place allowed. */
#include "kernels.h"

void relu_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
}
