/* g = m 2^e: rows of pixels of c numbers. Not in place. */
#include "kernels.h"
#include "kernels/block/block_rows.h"

void from_block_s8b(float *g, const int8_t *m, const int8_t *e, int32_t rows, int32_t pixels, int32_t c)
{
    block_from_rows(g, m, e, rows, pixels, c, 1);
}
