/* y = clamp(rescale(rescale((a - a_zero) 2^20) + sign rescale((b - b_zero) 2^20)) + y_zero), three roundings as in
 * LiteRT. Broadcasts; in place allowed over an operand of y's shape. Every multiplier is at most one: no left shifts.
 */
#include "isa/primitives.h"
#include "kernels.h"
#include "kernels/mask.h"
#include "kernels/pointwise/pair.h"

/* n elements; an operand with step 0 is one number */
static void sum_litert_row(int8_t *y, const int8_t *a, const int8_t *b, const pair_shape *s, const sum_litert_quant *q)
{
    const int32_t n = s->n, a0 = a[0], b0 = b[0];
    if (s->a_step && s->b_step) {
        sum_litert_run(y, a, b, n, q);
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

/* the same, one by one, with the mask */
static void sum_litert_masked(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s,
                              int32_t channels, const sum_litert_quant *q)
{
    mask_writer w = mask_start(mask, channels);
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        for (int32_t i = 0; i < s->n; i++) {
            const int32_t v = sum_litert_value(a[at.a + i * s->a_step], b[at.b + i * s->b_step], q);
            mask_next(&w, v, q->lo, q->hi);
            y[i] = fixed_clamp(v, q->lo, q->hi);
        }
        pair_next(&at, s);
    }
}

void sum_litert_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s, int32_t channels,
                   const sum_litert_quant *q)
{
    if (mask) {
        sum_litert_masked(y, mask, a, b, s, channels, q);
        return;
    }
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        sum_litert_row(y, a + at.a, b + at.b, s, q);
        pair_next(&at, s);
    }
}
