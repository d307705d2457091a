/* y = clamp(requant((a - a_zero)(b - b_zero)) + y_zero), rounded twice as LiteRT does. Broadcasts; in place allowed
 * over an operand of y's shape. The multiplier is below 2^14, so that the result fits in 32 bits.
 */
#include "kernels.h"
#include "kernels/mask.h"
#include "kernels/pointwise/pair.h"
#include "numbers/fixed.h"
#include "numbers/requant.h"

static inline int32_t mul_litert_value(int32_t a, int32_t b, const product_quant q)
{
    const int32_t product = (a - q.a_zero) * (b - q.b_zero);
    return (int32_t)requant_litert(product, q.m, q.shift) + q.y_zero;
}

static inline int8_t mul_litert_at(int32_t a, int32_t b, const product_quant q)
{
    return fixed_clamp(mul_litert_value(a, b, q), q.lo, q.hi);
}

/* n elements; an operand with step 0 is one number */
static void mul_litert_row(int8_t *y, const int8_t *a, const int8_t *b, const pair_shape *s, const product_quant q)
{
    const int32_t n = s->n, a0 = a[0], b0 = b[0];
    if (s->a_step && s->b_step) {
        for (int32_t i = 0; i < n; i++) {
            y[i] = mul_litert_at(a[i], b[i], q);
        }
    } else if (s->a_step) {
        for (int32_t i = 0; i < n; i++) {
            y[i] = mul_litert_at(a[i], b0, q);
        }
    } else {
        for (int32_t i = 0; i < n; i++) {
            y[i] = mul_litert_at(a0, b[i], q);
        }
    }
}

/* the same, one by one, with the mask */
static void mul_litert_masked(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s,
                              int32_t channels, const product_quant *q)
{
    mask_writer w = mask_start(mask, channels);
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        for (int32_t i = 0; i < s->n; i++) {
            const int32_t v = mul_litert_value(a[at.a + i * s->a_step], b[at.b + i * s->b_step], *q);
            mask_next(&w, v, q->lo, q->hi);
            y[i] = fixed_clamp(v, q->lo, q->hi);
        }
        pair_next(&at, s);
    }
}

void mul_litert_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s, int32_t channels,
                   const product_quant *q)
{
    if (mask) {
        mul_litert_masked(y, mask, a, b, s, channels, q);
        return;
    }
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        mul_litert_row(y, a + at.a, b + at.b, s, *q);
        pair_next(&at, s);
    }
}
