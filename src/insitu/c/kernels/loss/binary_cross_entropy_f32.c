/* loss = mean of log(1 + exp(-|x|)) + max(x, 0) - x target */
#include "kernels.h"
#include "numbers/mathf.h"

void binary_cross_entropy_f32(float *loss, const float *x, const float *target, int32_t n)
{
    float total = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        total += insitu_log1pf(insitu_expf(-insitu_absf(x[i]))) + insitu_max(x[i], 0.0f) - x[i] * target[i];
    }
    *loss = total / (float)n;
}
