/* y[i] = (scale x[i] - mean[c]) / std[c], c = (i / inner) % channels, n elements */
#include "kernels.h"

void normalize_s16(float *y, const int16_t *x, const float *mean, const float *std, int32_t n, int32_t channels,
                   int32_t inner, float scale)
{
    for (int32_t i = 0, c = 0; i < n; c = c + 1 < channels ? c + 1 : 0) {
        for (int32_t end = i + inner; i < end; i++) {
            y[i] = ((float)x[i] * scale - mean[c]) / std[c];
        }
    }
}
