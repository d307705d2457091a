/* dw[u,v,c] 2^dwe = sum over n,i,j of g[n,i,j,c] (x[..,c] - zero) / scale of x: groups of g are aligned to
 * their largest exponent and shortened by `drop` bits. Scratch: ow c int16. Not in place. */
#include "kernels.h"
#include "kernels/depthwise/block_depthwise.h"

void depthwise2d_dw_s16b(int32_t *dw, int8_t *dwe, const int16_t *g, const int8_t *ge, const int8_t *x, int32_t zero,
                         int32_t drop, const conv2d_shape *s, void *scratch)
{
    block_depthwise_dw(dw, dwe, g, ge, x, zero, drop, s, scratch, 2);
}
