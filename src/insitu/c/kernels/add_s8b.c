/* m 2^e = a 2^ae + b 2^be: blocks of n numbers, each normalised. In place over a (and ae over e) allowed. */
#include "block_rows.h"
#include "kernels.h"

void add_s8b(int8_t *m, int8_t *e, const int8_t *a, const int8_t *ae, const int8_t *b, const int8_t *be, int32_t blocks,
             int32_t n)
{
    for (int32_t i = 0; i < blocks; i++) {
        block_add(m, e + i, a, ae[i], b, be[i], i * n, n, 1);
    }
}
