/* dx = g w for a 1x1 convolution with stride one: conv2d_dx by products of pairs, `rows` rows of pixels and 16
 * channels of dx at a time.
 * Scratch: 16 int32 for each pixel of the rows, these rounded up to 8, 16, 32 or a multiple of 64; with
 * k = o rounded up to a multiple of four, 4 k int16, and k int16 for each pixel, rounded up to a multiple of four.
 * `share` NULL: shares are computed from `source`, and scratch begins with them: o int16, rounded up to a multiple of
 * eight. Not in place. `which`, `fixed` and `count` are those of block_weights, for a weight in two parts; NULL for a
 * whole one.
 */
#include "kernels.h"
#include "kernels/conv/block_pairs.h"
#include "kernels/conv/block_shares.h"

void conv2d_pairs_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                         const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share,
                         const weight_scales *source, int32_t k, int32_t drop, int32_t rows, const conv2d_shape *s,
                         void *scratch)
{
    const block_weights weights = {w, fixed, which, count};
    const int16_t *shares = block_shares(share, source, k, s->o, &scratch);
    block_pairs_dx(dx, dxe, g, ge, &weights, shares, k, drop, rows, s, scratch, 1);
}
