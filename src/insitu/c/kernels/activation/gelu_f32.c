/* y = x (1 + erf(x / sqrt(2))) / 2, n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void gelu_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = 0.5f * x[i] * (1.0f + insitu_erff(x[i] * 0.707106781f));
    }
}
