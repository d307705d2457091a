/* dw[o,u,v,k] 2^dwe = sum over n,i,j of g[n,i,j,o] (x[..,channels[k]] - zero): conv2d_dw without groups by products of
 * pairs, `piece` outputs (an even number) at a time. channels NULL: all of them, `count`.
 * Scratch, for every two of piece: two int32, 17 + count (rounded up to a multiple of four) pairs of int16; and c bytes
 * unless the kernel is 1x1 with stride one. Not in place.
 */
#include "kernels.h"
#include "kernels/conv/block_turned.h"

void conv2d_pairs_dw_s16b(int32_t *dw, int8_t *dwe, const int16_t *g, const int8_t *ge, const int8_t *x,
                          const int32_t *channels, int32_t count, int32_t zero, int32_t drop, int32_t piece,
                          const conv2d_shape *s, void *scratch)
{
    block_turned_dw(dw, dwe, g, ge, x, channels, count, zero, drop, piece, s, scratch, 2);
}
