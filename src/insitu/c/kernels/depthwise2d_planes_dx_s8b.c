/* dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v lies on r,q: depthwise2d_dx by windows that move
 * along planes, `band` rows of dx (at most 16) of 16 channels at a time; strides of one or two, no dilation, kh <= kw.
 * Scratch: 16 (band w + 7 without its lowest 2 bits) int32, 32 kh kw int16, 16 planes of `rows` rows of `width` int16:
 * as many rows of g as a band needs, and as many numbers as windows reach. In place over g allowed where dx has its
 * shape.
 */
#include "block_planes.h"
#include "kernels.h"

void depthwise2d_planes_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                                const int16_t *share, const int16_t *k, int32_t band, int32_t rows, int32_t width,
                                const conv2d_shape *s, void *scratch)
{
    block_planes_dx(dx, dxe, g, ge, w, share, k, band, rows, width, s, scratch, 1);
}
