/* The factor of an integer gradient whose squares were added tile by tile, as the second of `norm`. */
#include "kernels/update/block_update.h"

void norm_factor_s32b(float *norm, int32_t *count, const float *rate, float clip)
{
    norm[1] = block_factor(norm[0], *rate, clip, count);
}
