/* m 2^e = g: rows of pixels of c floats, each block with the exponent that its largest number needs. Not in place. */
#include "kernels.h"
#include "kernels/block/block_rows.h"

void to_block_s8b(int8_t *m, int8_t *e, const float *g, int32_t rows, int32_t pixels, int32_t c)
{
    block_to_rows(m, e, g, rows, pixels, c, 1);
}
