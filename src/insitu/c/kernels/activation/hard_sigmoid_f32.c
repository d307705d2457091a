/* y = min(max(alpha x + beta, 0), 1), n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void hard_sigmoid_f32(float *y, const float *x, int32_t n, float alpha, float beta)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = insitu_clamp(alpha * x[i] + beta, 0.0f, 1.0f);
    }
}
