/* y[n,h,w,c] = m[n,c] times share / 2^15 times 2^k: the gradient of a mean over an image. Not in place. */
#include "kernels.h"
#include "kernels/block/block_rows.h"

void expand_s16b(int16_t *y, int8_t *ye, const int16_t *m, const int8_t *e, int32_t n, int32_t h, int32_t w, int32_t c,
                 int32_t share, int32_t k)
{
    block_expand(y, ye, m, e, n, h, w, c, share, k, 2);
}
