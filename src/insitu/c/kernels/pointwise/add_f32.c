/* y = a + b with broadcasting. In place allowed over an operand of y's shape. */
#include "kernels.h"
#include "kernels/pointwise/pair.h"

/* n elements; an operand with step 0 is one number */
static void add_row(float *y, const float *a, const float *b, const pair_shape *s)
{
    const int32_t n = s->n;
    const float a0 = a[0], b0 = b[0];
    if (s->a_step && s->b_step) {
        for (int32_t i = 0; i < n; i++) {
            y[i] = a[i] + b[i];
        }
    } else if (s->a_step) {
        for (int32_t i = 0; i < n; i++) {
            y[i] = a[i] + b0;
        }
    } else {
        for (int32_t i = 0; i < n; i++) {
            y[i] = a0 + b[i];
        }
    }
}

void add_f32(float *y, const float *a, const float *b, const pair_shape *s)
{
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        add_row(y, a + at.a, b + at.b, s);
        pair_next(&at, s);
    }
}
