/* y = clamp(round(x * inverse) + zero), ties to even, n elements. Not in place.
 * Adding 1.5 * 2^23 leaves no room for a fraction: the sum is rounded, and its lowest bits are the integer.
 * The clamp comes first, so that the sum is that near. NaN becomes -128.
 */
#include "kernels.h"

enum { ROUNDER_BITS = 0x4b400000 };

void quantize_s8(int8_t *y, const float *x, int32_t n, float inverse, int32_t zero)
{
    const float lo = (float)(-128 - zero), hi = (float)(127 - zero);
    for (int32_t i = 0; i < n; i++) {
        union {
            float f;
            int32_t i;
        } v;
        v.f = x[i] * inverse;
        v.f = v.f > lo ? v.f : lo;
        v.f = v.f < hi ? v.f : hi;
        v.f += 12582912.0f;
        y[i] = (int8_t)(v.i - ROUNDER_BITS + zero);
    }
}
