/* dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v lies on r,q; w = share[c] / 2^15 * 2^k[group] * the
 * integer weight. Group by group: rows of g are multiplied with share and aligned, and every pixel of dx gathers its
 * contributions. Scratch: 16 w int32, 16 int16, 16 `rows` ow int16; `rows` are all rows of g, or at least as many as a
 * row of dx gathers from. In place over g allowed if dx has its shape. `share` NULL: shares are computed from `source`.
 * */
#include "kernels.h"
#include "kernels/depthwise/block_depthwise.h"

void depthwise2d_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                        const int16_t *share, const weight_scales *source, const int16_t *k, int32_t rows,
                        const conv2d_shape *s, void *scratch)
{
    block_depthwise_dx(dx, dxe, g, ge, w, share, source, k, rows, s, scratch, 1);
}
