/* y = exp(x - max x) / sum of exp(x - max x) along the middle axis of x[outer,n,inner]. In place allowed.
 * The maximum is subtracted first, so nothing overflows.
 */
#include "kernels.h"
#include "numbers/mathf.h"

static void softmax_row(float *y, const float *x, int32_t n)
{
    float top = x[0];
    for (int32_t i = 1; i < n; i++) {
        top = insitu_max(x[i], top);
    }
    for (int32_t i = 0; i < n; i++) {
        y[i] = insitu_expf(x[i] - top);
    }
    const float scale = 1.0f / insitu_sumf(y, n);
    for (int32_t i = 0; i < n; i++) {
        y[i] *= scale;
    }
}

/* n rows of `inner` columns, each column a softmax; the sums follow the formula, column by column */
static void softmax_column(float *y, const float *x, int32_t n, int32_t inner)
{
    float top = x[0], sum = 0.0f;
    for (int32_t i = 1; i < n; i++) {
        top = insitu_max(x[i * inner], top);
    }
    for (int32_t i = 0; i < n; i++) {
        y[i * inner] = insitu_expf(x[i * inner] - top);
        sum += y[i * inner];
    }
    for (int32_t i = 0; i < n; i++) {
        y[i * inner] /= sum;
    }
}

void softmax_f32(float *y, const float *x, int32_t outer, int32_t n, int32_t inner)
{
    for (int32_t r = 0; r < outer; r++, x += n * inner, y += n * inner) {
        if (inner == 1) {
            softmax_row(y, x, n);
            continue;
        }
        for (int32_t j = 0; j < inner; j++) {
            softmax_column(y + j, x + j, n, inner);
        }
    }
}
