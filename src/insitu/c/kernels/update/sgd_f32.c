/* w -= rate (factor dw + decay w), in place; nothing changes if clip_factor is 0. */
#include "kernels.h"

void sgd_f32(float *w, int32_t *count, const float *dw, const float *rate, float decay, float clip, int32_t n)
{
    const float factor = clip_factor(dw, *rate, clip, count, n), step = *rate;
    if (factor == 0.0f) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        w[i] -= step * (factor * dw[i] + decay * w[i]);
    }
}
