/* y = 1 / sqrt(x), n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void rsqrt_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = 1.0f / insitu_sqrtf(x[i]);
    }
}
