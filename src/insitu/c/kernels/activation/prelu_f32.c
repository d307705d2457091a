/* y = x where x > 0, else slope x; the slope broadcasts against x. In place allowed over x. */
#include "kernels.h"
#include "kernels/pointwise/pair.h"

static void prelu_row(float *y, const float *x, const float *slope, const pair_shape *s)
{
    const int32_t n = s->n;
    const float one = slope[0];
    if (s->b_step) {
        for (int32_t i = 0; i < n; i++) {
            y[i] = x[i] > 0.0f ? x[i] : x[i] * slope[i];
        }
    } else {
        for (int32_t i = 0; i < n; i++) {
            y[i] = x[i] > 0.0f ? x[i] : x[i] * one;
        }
    }
}

void prelu_f32(float *y, const float *x, const float *slope, const pair_shape *s)
{
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        prelu_row(y, x + at.a, slope + at.b, s);
        pair_next(&at, s);
    }
}
