/* y = x - max x - log(sum of exp(x - max x)) along the middle axis of x[outer,n,inner]. In place allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

static void log_softmax_column(float *y, const float *x, int32_t n, int32_t inner)
{
    float top = x[0], sum = 0.0f;
    for (int32_t i = 1; i < n; i++) {
        top = insitu_max(x[i * inner], top);
    }
    for (int32_t i = 0; i < n; i++) {
        sum += insitu_expf(x[i * inner] - top);
    }
    const float log_sum = insitu_logf(sum);
    for (int32_t i = 0; i < n; i++) {
        y[i * inner] = (x[i * inner] - top) - log_sum;
    }
}

void log_softmax_f32(float *y, const float *x, int32_t outer, int32_t n, int32_t inner)
{
    for (int32_t r = 0; r < outer; r++, x += n * inner, y += n * inner) {
        for (int32_t j = 0; j < inner; j++) {
            log_softmax_column(y + j, x + j, n, inner);
        }
    }
}
