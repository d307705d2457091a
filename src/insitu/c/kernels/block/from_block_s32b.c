/* g = scale * m 2^e: n numbers, number i of channel i / inner % channels, whose group has an exponent. In place over m
 * allowed. */
#include "kernels.h"
#include "kernels/block/block_rows.h"

void from_block_s32b(float *g, const int32_t *m, const int8_t *e, float scale, int32_t n, int32_t channels,
                     int32_t inner)
{
    for (int32_t i = 0; i < n; i++) {
        g[i] = (float)m[i] * block_power(e[i / inner % channels / BLOCK_GROUP]) * scale;
    }
}
