/* The factor that brings the norm of a gradient down to `clip`, or that of its step, rate times gradient, to -clip if clip
 * is negative; 1 if the norm is smaller or clip is 0. 0 means "change nothing": the gradient is not finite (counted), or
 * the rate is zero or not finite.
 */
#include "kernels/update/norm.h"

float clip_factor(const float *g, float rate, float clip, int32_t *count, int32_t n)
{
    if (rate == 0.0f || !(rate - rate == 0.0f)) {
        return 0.0f;
    }
    float lane[NORM_LANES] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    norm_add(lane, g, 0, n);
    return norm_factor(lane, rate, clip, count);
}
