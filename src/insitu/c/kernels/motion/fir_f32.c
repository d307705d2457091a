/* y[i,t,c] = sum over k of taps[k] x[i,t+k,c], k one after the other; x has times + count - 1 rows per image */
#include "kernels.h"

void fir_f32(float *y, const float *x, const float *taps, int32_t n, int32_t times, int32_t width, int32_t count)
{
    for (int32_t i = 0; i < n; i++, x += (count - 1) * width) {
        for (int32_t j = 0; j < times * width; j++, x++) {
            float sum = 0.0f;
            for (int32_t k = 0; k < count; k++) {
                sum = sum + taps[k] * x[k * width];
            }
            *y++ = sum;
        }
    }
}
