/* y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void gelu_tanh_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = 0.5f * x[i] * (1.0f + insitu_tanhf(0.797884561f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
    }
}
