/* conv2d_s8 for constant weights of one group, packed at compile time:
 *   w        [o/16][runs][k/4][16][4], zero-padded in o and k. A run is contiguous in x: the kw c taps
 *            of a kernel row (runs = kh), or with dw > 1 the c taps of one pixel (runs = kh kw)
 *   offset   -(x_zero + 128) * sum of w[o]: undoes that x is read as x + 128, unsigned, and not centred
 * so that y = requantised (b[o] + offset[o] + sum over k of w[o,k] (x[..k..] + 128)). b may be null.
 * Scratch, 1x1 kernels with stride one and c % 4 == 0: 16 c bytes, 16 pixels of x + 128. Others: 8 * runs bytes
 * (rounded up to 16) and (kh - 1) dh + 1 rows of x + 128 with their padding, each as wide as the outputs need, plus 3
 * bytes, rounded up to 16. Not in place.
 */
#include "kernels/conv/conv_tiles.h"

void conv2d_packed_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b,
                      const int32_t *offset, const conv2d_shape *s, const requant *q, void *scratch)
{
    conv2d_tiles(y, mask, x, w, b, offset, s, s->o, q, scratch);
}
