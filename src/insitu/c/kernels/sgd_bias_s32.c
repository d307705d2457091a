/* b -= round(rate factor db channel[..]), in place, saturating. */
#include "kernels.h"
#include "mathf.h"

void sgd_bias_s32(int32_t *b, int32_t *count, const float *db, const float *rate, float clip, const float *channel,
                  int32_t channels, int32_t inner, int32_t n)
{
    const float factor = clip_factor(db, clip, count, n), scaled = *rate * factor;
    if (factor == 0.0f) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        const float step = scaled * db[i] * channel[i / inner % channels];
        const int64_t now = (int64_t)b[i] - insitu_round(step, 1073741824.0f);
        b[i] = now > INT32_MAX ? INT32_MAX : now < INT32_MIN ? INT32_MIN : (int32_t)now;
    }
}
