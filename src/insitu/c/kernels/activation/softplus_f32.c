/* y = log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|)), n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void softplus_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = insitu_max(x[i], 0.0f) + insitu_log1pf(insitu_expf(-insitu_absf(x[i])));
    }
}
