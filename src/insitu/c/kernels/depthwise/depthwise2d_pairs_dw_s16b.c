/* dw[u,v,c] 2^dwe = sum over n,i,j of g[n,i,j,c] (x[..,c] - zero): depthwise2d_dw by products of pairs, `piece` outputs (an
 * even number) at a time.
 * Scratch, for every two of piece: two int32, 1 + c (rounded up to a multiple of four) pairs of int16; and c bytes.
 * Not in place.
 */
#include "kernels.h"
#include "kernels/conv/block_turned.h"

void depthwise2d_pairs_dw_s16b(int32_t *dw, int8_t *dwe, const int16_t *g, const int8_t *ge, const int8_t *x,
                               int32_t zero, int32_t drop, int32_t piece, const conv2d_shape *s, void *scratch)
{
    block_turned_depthwise_dw(dw, dwe, g, ge, x, zero, drop, piece, s, scratch, 2);
}
