/* y = clamp(rescale(x - a_zero, m, shift) + y_zero), rounded twice as LiteRT does. n elements; in place allowed. */
#include "fixed.h"
#include "kernels.h"
#include "requant.h"

void requantize_litert_s8(int8_t *y, const int8_t *x, int32_t n, const product_quant *q)
{
    const int32_t m = q->m, shift = q->shift, a_zero = q->a_zero, y_zero = q->y_zero, lo = q->lo, hi = q->hi;
    for (int32_t i = 0; i < n; i++) {
        y[i] = fixed_clamp((int32_t)requant_litert(x[i] - a_zero, m, shift) + y_zero, lo, hi);
    }
}
