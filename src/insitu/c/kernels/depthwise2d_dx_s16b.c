/* dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v lies on r,q; w = share[c] / 2^15 * 2^k[group] * the
 * integer weight. Group by group: an image of g is multiplied with share and aligned. Scratch: 16 w int32, 16 oh ow
 * int16. In place over g allowed where dx has its shape. */
#include "block_depthwise.h"
#include "kernels.h"

void depthwise2d_dx_s16b(int16_t *dx, int8_t *dxe, const int16_t *g, const int8_t *ge, const int8_t *w,
                         const int16_t *share, const int16_t *k, const conv2d_shape *s, void *scratch)
{
    block_depthwise_dx(dx, dxe, g, ge, w, share, k, s, scratch, 2);
}
