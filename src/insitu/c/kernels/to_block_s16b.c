/* m 2^e = g: blocks of n floats, each with the smallest exponent that holds its largest number. Not in place. */
#include "block_rows.h"
#include "kernels.h"

void to_block_s16b(int16_t *m, int8_t *e, const float *g, int32_t blocks, int32_t n)
{
    for (int32_t b = 0; b < blocks; b++) {
        block_from_floats(m, e + b, b * n, g + b * n, n, 2);
    }
}
