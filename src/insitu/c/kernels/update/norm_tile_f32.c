/* The contribution of a tile of a gradient, its elements first..first+n-1, to the squares of its norm: the first eight
 * of `norm`, which the first tile clears.
 */
#include "kernels/update/norm.h"

void norm_tile_f32(float *norm, const float *g, int32_t first, int32_t n)
{
    for (int32_t l = 0; l < NORM_LANES && first == 0; l++) {
        norm[l] = 0.0f;
    }
    norm_add(norm, g, first, n);
}
