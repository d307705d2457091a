/* The sums of conv2d_sum_dx_s16b, acc[row][channel][pixel], become blocks. ge has the exponents of the summed
 * gradient, og per row: 2^by times the largest is the real value of a sum of 1. In place if there is scratch for it:
 * copy, one int32 per sum of a row.
 */
#include "kernels.h"
#include "kernels/conv/block_deep.h"

void conv2d_store_dx_s16b(int16_t *dx, int8_t *dxe, const int32_t *acc, const int8_t *ge, int32_t og, int32_t by,
                          int32_t rows, int32_t pixels, int32_t channels, void *copy)
{
    block_deep_store(dx, dxe, acc, ge, og, by, rows, pixels, channels, (int32_t *)copy, 2);
}
