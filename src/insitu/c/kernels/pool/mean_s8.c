/* y[o,i] = requantised sum over r of (x[outer(o) + step(r) + i] - x_zero): see reduce_shape.
 * The multiplier of q includes the division. Scratch: 4 inner bytes, the sums. Not in place.
 */
#include "isa/primitives.h"
#include "kernels.h"
#include "kernels/mask.h"

void mean_s8(int8_t *y, uint8_t *mask, const int8_t *x, const reduce_shape *s, int32_t channels, const requant *q,
             void *scratch)
{
    int32_t *acc = (int32_t *)scratch;
    mask_writer w = mask_start(mask, channels);
    for (int32_t o = 0; o < s->outer; o++, y += s->inner) {
        const int8_t *from = x + (s->outer_at ? s->outer_at[o] : o * s->reduce * s->inner);
        for (int32_t i = 0; i < s->inner; i++) {
            acc[i] = 0;
        }
        for (int32_t r = 0; r < s->reduce; r++) {
            axpy_s8(acc, from + (s->reduce_at ? s->reduce_at[r] : r * s->inner), q->x_zero, 1, s->inner);
        }
        requant_row(y, acc, q, s->inner);
        for (int32_t i = 0; mask && i < s->inner; i++) {
            mask_next(&w, requant_value(acc[i], i, q), q->lo, q->hi);
        }
    }
}
