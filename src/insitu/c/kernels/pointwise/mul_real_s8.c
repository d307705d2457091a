/* y = g scale (x - zero); x broadcasts to the shape of g. In place over g allowed. */
#include "kernels.h"
#include "kernels/pointwise/pair.h"

void mul_real_s8(float *y, const float *g, const int8_t *x, const pair_shape *s, float scale, int32_t zero)
{
    pair_at at = {0, 0, {0}};
    for (int32_t r = 0; r < s->rows; r++, y += s->n) {
        const float *a = g + at.a;
        const int8_t *b = x + at.b;
        if (s->b_step) {
            for (int32_t i = 0; i < s->n; i++) {
                y[i] = a[i] * (scale * (float)(b[i] - zero));
            }
        } else {
            const float factor = scale * (float)(b[0] - zero);
            for (int32_t i = 0; i < s->n; i++) {
                y[i] = a[i] * factor;
            }
        }
        pair_next(&at, s);
    }
}
