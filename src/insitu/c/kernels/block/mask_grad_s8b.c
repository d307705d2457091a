/* y = m where the mask's bit is one, else 0: rows of c mantissas, each row's bits start at a byte. In place over m
 * allowed. */
#include "kernels.h"
#include "kernels/block/block_rows.h"

void mask_grad_s8b(int8_t *y, const int8_t *m, const uint8_t *mask, int32_t rows, int32_t c)
{
    block_mask_rows(y, m, mask, rows, c, 1);
}
