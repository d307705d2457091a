/* y = x min(max(x + 3, 0), 6) / 6, n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void hard_swish_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = x[i] * insitu_clamp(x[i] + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f);
    }
}
