/* clip_factor of a gradient whose squares were added tile by tile, as the ninth of `norm`. */
#include "kernels/update/norm.h"

void norm_factor_f32(float *norm, int32_t *count, const float *rate, float clip)
{
    norm[NORM_LANES] = norm_factor(norm, *rate, clip, count);
}
