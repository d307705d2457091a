/* y = scale (x - zero), n elements. Not in place. */
#include "kernels.h"

void dequantize_s8(float *y, const int8_t *x, int32_t n, float scale, int32_t zero)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = scale * (float)(x[i] - zero);
    }
}
