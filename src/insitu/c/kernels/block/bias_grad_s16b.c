/* db[c] 2^de = the sum over rows of pixels of m 2^e, at the largest exponent of each group, with `room` extra bits. */
#include "kernels.h"
#include "kernels/block/block_rows.h"

void bias_grad_s16b(int32_t *db, int8_t *de, const int16_t *m, const int8_t *e, int32_t rows, int32_t pixels,
                    int32_t c, int32_t room)
{
    block_bias_grad(db, de, m, e, rows, pixels, c, room, 2);
}
