/* dx[n,r,q,c] = sum over i,j,o of g[n,i,j,o] w[o,u,v,c] where tap u,v lies on r,q; w = share[o] / 2^15 * 2^k * the
 * integer weight. Rows of g are multiplied with share and shortened by `drop` bits, aligned for each row of dx.
 * Scratch: w c int32, ow o int16. Not in place. */
#include "kernels.h"
#include "kernels/conv/block_conv.h"

void conv2d_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                    const int16_t *share, int32_t k, int32_t drop, const conv2d_shape *s, void *scratch)
{
    block_conv_dx(dx, dxe, g, ge, w, share, k, drop, s, scratch, 1);
}
