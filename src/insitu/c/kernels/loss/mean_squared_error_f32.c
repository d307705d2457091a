/* loss = mean of (x - target)^2 */
#include "kernels.h"

void mean_squared_error_f32(float *loss, const float *x, const float *target, int32_t n)
{
    float total = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        total += (x[i] - target[i]) * (x[i] - target[i]);
    }
    *loss = total / (float)n;
}
