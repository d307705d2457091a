/* w -= round(rate factor dw channel[..]), in place; saturates at +-127, counted. */
#include "kernels.h"
#include "mathf.h"

void sgd_nearest_s8(int8_t *w, int32_t *count, const float *dw, const float *rate, float clip, const float *channel,
                    int32_t channels, int32_t inner, int32_t n)
{
    const float factor = clip_factor(dw, clip, count, n), scaled = *rate * factor;
    if (factor == 0.0f) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const float step = scaled * dw[i] * channel[i / inner % channels];
        int32_t now = w[i] - insitu_round(step, 65536.0f);
        if (now > 127 || now < -127) {
            now = now > 0 ? 127 : -127;
            count[2]++;
        }
        w[i] = (int8_t)now;
    }
}
