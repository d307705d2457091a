/* The 16-bit number w + r/256 moves by -rate factor dw channel[..], to the nearest 1/256, in place.
 * Saturates at +-127, counted.
 */
#include "kernels.h"
#include "mathf.h"

void sgd_residual_s8(int8_t *w, int8_t *r, int32_t *count, const float *dw, const float *rate, float clip,
                     const float *channel, int32_t channels, int32_t inner, int32_t n)
{
    const float factor = clip_factor(dw, clip, count, n), scaled = *rate * factor;
    if (factor == 0.0f) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const float step = scaled * dw[i] * channel[i / inner % channels];
        int32_t now = w[i] * 256 + r[i] - insitu_round(step * 256.0f, 65536.0f);
        if (now > 127 * 256 || now < -127 * 256) {
            now = now > 0 ? 127 * 256 : -127 * 256;
            count[2]++;
        }
        const int32_t whole = (now + 128) >> 8;
        w[i] = (int8_t)whole;
        r[i] = (int8_t)(now - whole * 256);
    }
}
