/* loss = mean over samples of -sum over c of target[n,c] log softmax(x[n])[c] */
#include "kernels.h"
#include "numbers/mathf.h"

void soft_cross_entropy_f32(float *loss, const float *x, const float *target, int32_t n, int32_t classes)
{
    float total = 0.0f;
    for (int32_t s = 0; s < n; s++, x += classes, target += classes) {
        float top = x[0], sum = 0.0f;
        for (int32_t c = 1; c < classes; c++) {
            top = insitu_max(x[c], top);
        }
        for (int32_t c = 0; c < classes; c++) {
            sum += insitu_expf(x[c] - top);
        }
        const float log_sum = insitu_logf(sum);
        for (int32_t c = 0; c < classes; c++) {
            total += target[c] * (log_sum - (x[c] - top));
        }
    }
    *loss = total / (float)n;
}
