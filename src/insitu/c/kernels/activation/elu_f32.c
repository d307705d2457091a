/* y = x where x > 0, else alpha (exp(x) - 1), n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void elu_f32(float *y, const float *x, int32_t n, float alpha)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = x[i] > 0.0f ? x[i] : alpha * insitu_expm1f(x[i]);
    }
}
