/* What a gradient is multiplied with before it is used: what brings its norm down to `clip`, 1 where it is below or
 * clip is 0. 0 means "change nothing": the gradient is not finite (counted), or the rate is zero or not finite.
 * The squares are added in eight lanes, element i in lane i % 8, and the lanes in pairs: the same on every machine.
 */
#include "kernels.h"
#include "mathf.h"

float clip_factor(const float *g, float rate, float clip, int32_t *count, int32_t n)
{
    if (rate == 0.0f || !(rate - rate == 0.0f)) {
        return 0.0f;
    }
    float lane[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int32_t l = 0; l < 8; l++) {
            lane[l] += g[i + l] * g[i + l];
        }
    }
    for (int32_t l = 0; i + l < n; l++) {
        lane[l] += g[i + l] * g[i + l];
    }
    const float sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    if (!(sum - sum == 0.0f)) {
        count[0]++;
        return 0.0f;
    }
    const float norm = insitu_sqrtf(sum);
    if (clip == 0.0f || !(norm > clip)) {
        return 1.0f;
    }
    count[1]++;
    return clip / norm;
}
