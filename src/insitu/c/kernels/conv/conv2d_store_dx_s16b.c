/* The sums of conv2d_sum_dx_s16b, acc[row][channel][pixel], become blocks; og exponents a row are at ge, those of the
 * gradient they are sums of, the largest of which times 2^by is what a sum of 1 stands for. In place, if there is
 * scratch for it: copy, an int32 for each sum of a row.
 */
#include "kernels.h"
#include "kernels/conv/block_deep.h"

void conv2d_store_dx_s16b(int16_t *dx, int8_t *dxe, const int32_t *acc, const int8_t *ge, int32_t og, int32_t by,
                          int32_t rows, int32_t pixels, int32_t channels, void *copy)
{
    block_deep_store(dx, dxe, acc, ge, og, by, rows, pixels, channels, (int32_t *)copy, 2);
}
