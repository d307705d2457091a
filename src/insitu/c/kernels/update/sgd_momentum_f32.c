/* m = momentum m + factor dw + decay w; w -= rate m (nesterov: rate (d + momentum m)), in place. An m below 2^-110 is 0: see
 * tiny.h. */
#include "kernels.h"
#include "kernels/update/tiny.h"

void sgd_momentum_f32(float *w, float *m, int32_t *count, const float *dw, const float *rate, float momentum,
                      float decay, float clip, int32_t nesterov, int32_t n)
{
    const float factor = clip_factor(dw, *rate, clip, count, n), step = *rate;
    if (factor == 0.0f) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const float d = factor * dw[i] + decay * w[i];
        m[i] = without_tiny(momentum * m[i] + d, TINY_SQUARE);
        w[i] -= step * (nesterov ? d + momentum * m[i] : m[i]);
    }
}
