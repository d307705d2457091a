/* acc[r,o] = b[o] + sum over i of w[o,i] (x[r,i] - x_zero); y = requantised acc, mask (if not null) where it was not
 * clamped. b may be null.
 * Scratch: 2 i bytes, one row of x. Not in place.
 */
#include "isa/primitives.h"
#include "kernels.h"

void linear_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const linear_shape *s, const requant *q,
               void *scratch)
{
    int16_t *row = (int16_t *)scratch;
    for (int32_t r = 0; r < s->rows; r++, x += s->i) {
        centre_s8(row, x, q->x_zero, s->i);
        for (int32_t o = 0; o < s->o; o++) {
            const uint32_t sum = (uint32_t)dot_s16s8(row, w + o * s->i, s->i);
            *y++ = requant_masked(mask_row(mask, r, s->o), (int32_t)(sum + (b ? (uint32_t)b[o] : 0u)), o, q);
        }
    }
}
