/* loss = mean over samples of log(sum of exp(x[n] - max)) - (x[n,label] - max)
 * A label that is no class makes the loss not a number, so that the step is skipped and counted.
 */
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
        const int32_t label = labels[s];
        if (label < 0 || label >= classes) {
            *loss = 0.0f / 0.0f;
            return;
        }
        total += insitu_logf(sum) - (x[label] - top);
    }
    *loss = total / (float)n;
}
