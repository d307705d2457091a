/* conv2d_pairs_dx_s8b in little room: `depth` outputs (a multiple of 16) of `rows` rows of pixels at a time.
 * Scratch: 512 bytes (sums), an int32 for each pixel and channel of the rows, 4 depth int16 (weights), depth int16 for
 * each pixel, rounded up to a multiple of four. Not in place.
 */
#include "block_deep.h"
#include "kernels.h"

void conv2d_deep_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                        const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share, int32_t k,
                        int32_t drop, int32_t rows, int32_t depth, const conv2d_shape *s, void *scratch)
{
    const block_weights weights = {w, fixed, which, count};
    block_deep_dx(dx, dxe, g, ge, &weights, share, k, drop, rows, depth, s, scratch, 1);
}
