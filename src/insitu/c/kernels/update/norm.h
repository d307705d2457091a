/* The norm of a gradient, and the factor that reduces it to a limit. Squares are added in eight lanes, element i in
 * lane i % 8, and the lanes in pairs: the same on every machine, and for any part of the gradient at a time.
 */
#ifndef INSITU_NORM_H
#define INSITU_NORM_H

#include "numbers/mathf.h"
#include "numbers/count.h"

enum { NORM_LANES = 8 };

/* elements first..first+n-1 of a gradient; g starts with the first of them */
static inline void norm_add(float *lane, const float *g, int32_t first, int32_t n)
{
    int32_t i = 0;
    for (; i < n && (first + i) % NORM_LANES; i++) {
        lane[(first + i) % NORM_LANES] += g[i] * g[i];
    }
    for (; i + NORM_LANES <= n; i += NORM_LANES) {
        for (int32_t l = 0; l < NORM_LANES; l++) {
            lane[l] += g[i + l] * g[i + l];
        }
    }
    for (int32_t l = 0; i + l < n; l++) {
        lane[l] += g[i + l] * g[i + l];
    }
}

/* the factor of a gradient of this norm; of its step, rate times gradient, if clip is negative */
static inline float limit_factor(float norm, float rate, float clip, int32_t *count)
{
    const float length = clip < 0.0f ? norm * rate : norm, most = clip < 0.0f ? -clip : clip;
    if (clip == 0.0f || !(length > most)) {
        return 1.0f;
    }
    count_more(count + 1, 1);
    return most / length;
}

/* the factor of the gradient; 0: change nothing */
static inline float norm_factor(const float *lane, float rate, float clip, int32_t *count)
{
    if (rate == 0.0f || !(rate - rate == 0.0f)) {
        return 0.0f;
    }
    const float sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    if (!(sum - sum == 0.0f)) {
        count_more(count, 1);
        return 0.0f;
    }
    return limit_factor(insitu_sqrtf(sum), rate, clip, count);
}

#endif
