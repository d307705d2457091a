/* y = min(max(x, lo), hi), n elements. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void clamp_f32(float *y, const float *x, int32_t n, float lo, float hi)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = insitu_clamp(x[i], lo, hi);
    }
}
