/* y = g where the mask's bit is one, else 0: rows of c elements, each row's bits start at a byte. In place over g
 * allowed.
 */
#include "isa/mask.h"
#include "kernels.h"

void mask_grad_f32(float *y, const float *g, const uint8_t *mask, int32_t rows, int32_t c)
{
    if (c % 8 == 0) { /* the bits of all rows are contiguous */
        mask_row_f32(y, g, mask, rows * c);
        return;
    }
    for (int32_t r = 0; r < rows; r++) {
        mask_row_f32(y + r * c, g + r * c, mask + r * ((c + 7) / 8), c);
    }
}
