/* dw[o,k] 2^dwe = sum over pixels of g[..,o] (x[..,channels[k]] - zero) for a 1x1 convolution that moves by one: conv2d_dw
 * by products of pairs, `piece` pixels (a multiple of four) at a time.
 * Scratch: 512 bytes, piece (16 + count rounded up to a multiple of four) int16. Not in place.
 */
#include "block_pairs.h"
#include "kernels.h"

void conv2d_pairs_dw_s8b(int32_t *dw, int8_t *dwe, const int8_t *g, const int8_t *ge, const int8_t *x,
                          const int32_t *channels, int32_t count, int32_t zero, int32_t drop, int32_t piece,
                          const conv2d_shape *s, void *scratch)
{
    block_pairs_dw(dw, dwe, g, ge, x, channels, count, zero, drop, piece, s, scratch, 1);
}
