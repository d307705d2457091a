/* m 2^e = a 2^ae + b 2^be: rows of pixels of c numbers, each block normalised. In place over a (and ae over e)
 * allowed. */
#include "kernels.h"
#include "kernels/block/block_rows.h"

void add_s8b(int8_t *m, int8_t *e, const int8_t *a, const int8_t *ae, const int8_t *b, const int8_t *be,
              int32_t rows, int32_t pixels, int32_t c)
{
    block_add_rows(m, e, a, ae, b, be, rows, pixels, c, 1);
}
