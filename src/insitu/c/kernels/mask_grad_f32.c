/* y = g where the mask's bit is one, else 0: rows of c elements, each row's bits from a byte on. In place over g allowed.
 */
#include "kernels.h"

void mask_grad_f32(float *y, const float *g, const uint8_t *mask, int32_t rows, int32_t c)
{
    for (int32_t r = 0; r < rows; r++, y += c, g += c, mask += (c + 7) / 8) {
        for (int32_t i = 0; i < c; i++) {
            y[i] = (mask[i >> 3] >> (i & 7)) & 1 ? g[i] : 0.0f;
        }
    }
}
