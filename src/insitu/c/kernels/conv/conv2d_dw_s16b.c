/* dw[o,u,v,k] 2^dwe = sum over n,i,j of g[n,i,j,o] (x[..,channels[k]] - zero) / scale of x: groups of g are aligned
 * to their largest exponent and shortened by `drop` bits. channels NULL: all of them, `count`.
 * Scratch: ow o int16. Not in place. */
#include "kernels.h"
#include "kernels/conv/block_conv.h"

void conv2d_dw_s16b(int32_t *dw, int8_t *dwe, const int16_t *g, const int8_t *ge, const int8_t *x,
                    const int32_t *channels, int32_t count, int32_t zero, int32_t drop, const conv2d_shape *s,
                    void *scratch)
{
    block_conv_dw(dw, dwe, g, ge, x, channels, count, zero, drop, s, scratch, 2);
}
