/* y = sqrt(x), n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void sqrt_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = insitu_sqrtf(x[i]);
    }
}
