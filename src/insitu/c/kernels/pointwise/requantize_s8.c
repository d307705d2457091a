/* y = clamp(rescale(x - a_zero, m, shift) + y_zero), rounded once, half up. n elements; in place allowed.
 * The mask, if wanted, comes first: y may overwrite x.
 */
#include "kernels.h"
#include "kernels/mask.h"
#include "numbers/fixed.h"
#include "numbers/requant.h"

void requantize_s8(int8_t *y, uint8_t *mask, const int8_t *x, int32_t n, int32_t channels, const product_quant *q)
{
    const int32_t m = q->m, shift = q->shift, a_zero = q->a_zero, y_zero = q->y_zero, lo = q->lo, hi = q->hi;
    mask_writer w = mask_start(mask, channels);
    for (int32_t i = 0; mask && i < n; i++) {
        mask_next(&w, requant_single(x[i] - a_zero, m, shift) + y_zero, lo, hi);
    }
    for (int32_t i = 0; i < n; i++) {
        y[i] = fixed_clamp((int32_t)requant_single(x[i] - a_zero, m, shift) + y_zero, lo, hi);
    }
}
