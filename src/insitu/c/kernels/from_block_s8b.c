/* g = m 2^e: blocks of n numbers. Not in place. */
#include "block_rows.h"
#include "kernels.h"

void from_block_s8b(float *g, const int8_t *m, const int8_t *e, int32_t blocks, int32_t n)
{
    for (int32_t b = 0; b < blocks; b++) {
        const float factor = block_power(e[b]);
        for (int32_t i = b * n; i < (b + 1) * n; i++) {
            g[i] = (float)m[i] * factor;
        }
    }
}
