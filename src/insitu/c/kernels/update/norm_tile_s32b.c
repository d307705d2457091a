/* The contribution of a tile of an integer gradient, its elements first..first+n-1, to the square of its norm, the
 * first of `norm`, which the first tile clears: whole groups of channels, `inner` elements per channel.
 */
#include "kernels.h"

void norm_tile_s32b(float *norm, const int32_t *dw, const int8_t *e, float scale, int32_t inner, int32_t first, int32_t n)
{
    const block_gradient g = {dw, e, scale, n, n / inner, inner};
    norm[0] = squares_s32b(first ? norm[0] : 0.0f, &g);
}
