/* y = clamp(rescale(rescale((a - a_zero) 2^20) + sign rescale((b - b_zero) 2^20)) + y_zero), three roundings as LiteRT
 * has them. Broadcasts; in place allowed over an operand of y's shape. Every multiplier is at most one: no left shifts.
 */
#include "fixed.h"
#include "kernels.h"
#include "pair.h"

static inline int8_t sum_litert_at(int32_t a, int32_t b, const sum_litert_quant q)
{
    const int32_t ta = fixed_shift(fixed_mul((a - q.a_zero) * (1 << 20), q.ma), -q.a_shift);
    const int32_t tb = fixed_shift(fixed_mul((b - q.b_zero) * (1 << 20), q.mb), -q.b_shift);
    const int32_t sum = fixed_shift(fixed_mul(ta + q.sign * tb, q.my), -q.y_shift);
    return fixed_clamp(sum + q.y_zero, q.lo, q.hi);
}

/* n elements; an operand that does not step is one number */
static void sum_litert_row(int8_t *y, const int8_t *a, const int8_t *b, const pair_shape *s, const sum_litert_quant q)
{
    const int32_t n = s->n, a0 = a[0], b0 = b[0];
    if (s->a_step && s->b_step) {
        for (int32_t i = 0; i < n; i++) {
            y[i] = sum_litert_at(a[i], b[i], q);
        }
    } else if (s->a_step) {
        for (int32_t i = 0; i < n; i++) {
            y[i] = sum_litert_at(a[i], b0, q);
        }
    } else {
        for (int32_t i = 0; i < n; i++) {
            y[i] = sum_litert_at(a0, b[i], q);
        }
    }
}

void sum_litert_s8(int8_t *y, const int8_t *a, const int8_t *b, const pair_shape *s, const sum_litert_quant *q)
{
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        sum_litert_row(y, a + at.a, b + at.b, s, *q);
        pair_next(&at, s);
    }
}
