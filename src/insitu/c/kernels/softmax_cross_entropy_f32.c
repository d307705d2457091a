/* loss = mean over samples of log(sum of exp(x[n] - max)) - (x[n,label] - max) */
#include "kernels.h"
#include "mathf.h"

void softmax_cross_entropy_f32(float *loss, const float *x, const int32_t *labels, int32_t n, int32_t classes)
{
    float total = 0.0f;
    for (int32_t s = 0; s < n; s++, x += classes) {
        float top = x[0], sum = 0.0f;
        for (int32_t c = 1; c < classes; c++) {
            top = insitu_max(x[c], top);
        }
        for (int32_t c = 0; c < classes; c++) {
            sum += insitu_expf(x[c] - top);
        }
        total += insitu_logf(sum) - (x[labels[s]] - top);
    }
    *loss = total / (float)n;
}
