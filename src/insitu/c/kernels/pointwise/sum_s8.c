/* y = clamp(((ma (a - a_zero) + mb (b - b_zero) + half) >> shift) + y_zero), rounded once, half up. Broadcasts; in place
 * allowed over an operand of y's shape. The multipliers have 16 bits, so 32 are enough.
 */
#include "isa/sum.h"
#include "kernels.h"
#include "kernels/mask.h"
#include "kernels/pointwise/pair.h"
#include "numbers/fixed.h"

static inline int8_t sum_at(int32_t a, int32_t b, const sum_quant q)
{
    return fixed_clamp(sum_value(a, b, &q), q.lo, q.hi);
}

/* n elements; an operand with step 0 is one number */
static void sum_row(int8_t *y, const int8_t *a, const int8_t *b, const pair_shape *s, const sum_quant q)
{
    const int32_t n = s->n, a0 = a[0], b0 = b[0];
    if (s->a_step && s->b_step) {
        sum_run(y, a, b, n, &q);
    } else if (s->a_step) {
        for (int32_t i = 0; i < n; i++) {
            y[i] = sum_at(a[i], b0, q);
        }
    } else {
        for (int32_t i = 0; i < n; i++) {
            y[i] = sum_at(a0, b[i], q);
        }
    }
}

/* the same, one by one, with the mask */
static void sum_each(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s,
                       int32_t channels, const sum_quant *q)
{
    mask_writer w = mask_start(mask, channels);
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        for (int32_t i = 0; i < s->n; i++) {
            const int32_t v = sum_value(a[at.a + i * s->a_step], b[at.b + i * s->b_step], q);
            mask_next(&w, v, q->lo, q->hi);
            y[i] = fixed_clamp(v, q->lo, q->hi);
        }
        pair_next(&at, s);
    }
}

void sum_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s, int32_t channels,
            const sum_quant *q)
{
    if (mask && s->rows == 1 && s->a_step && s->b_step) {
        const int32_t n = channels % 8 ? channels : s->n; /* whole bytes of bits: all rows are contiguous */
        for (int32_t i = 0; i < s->n; i += n, mask += (n + 7) / 8) {
            sum_masked(y + i, mask, a + i, b + i, n, q);
        }
        return;
    }
    if (mask) {
        sum_each(y, mask, a, b, s, channels, q);
        return;
    }
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        sum_row(y, a + at.a, b + at.b, s, *q);
        pair_next(&at, s);
    }
}
