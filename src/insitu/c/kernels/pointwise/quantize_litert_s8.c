/* y = clamp(round(x / scale) + zero), ties away from zero, n elements. Not in place.
 * The clamp comes first: a conversion to an integer that overflows is undefined. NaN becomes -128.
 */
#include "kernels.h"

void quantize_litert_s8(int8_t *y, const float *x, int32_t n, float scale, int32_t zero)
{
    const float lo = (float)(-128 - zero), hi = (float)(127 - zero);
    for (int32_t i = 0; i < n; i++) {
        float v = x[i] / scale;
        v = v > lo ? v : lo;
        v = v < hi ? v : hi;
        const int32_t t = (int32_t)v;
        const float rest = v - (float)t; /* exact */
        y[i] = (int8_t)(t + (rest >= 0.5f) - (rest <= -0.5f) + zero);
    }
}
