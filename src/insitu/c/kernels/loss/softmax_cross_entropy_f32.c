/* loss = mean over samples of log(1 + sum over c != top of exp(x[n,c] - x[n,top])) - (x[n,label] - x[n,top])
 * The largest is left out of the sum: the loss of a well-known sample is small, and log(1 + s) of a small s keeps all
 * digits. A label that is not a class makes the loss NaN, so that the step is skipped and counted.
 */
#include "kernels.h"
#include "numbers/mathf.h"

void softmax_cross_entropy_f32(float *loss, const float *x, const int32_t *labels, int32_t n, int32_t classes)
{
    float total = 0.0f;
    for (int32_t s = 0; s < n; s++, x += classes) {
        int32_t top = 0;
        float sum = 0.0f;
        for (int32_t c = 1; c < classes; c++) {
            top = x[c] > x[top] ? c : top;
        }
        for (int32_t c = 0; c < classes; c++) {
            sum += c == top ? 0.0f : insitu_expf(x[c] - x[top]);
        }
        const int32_t label = labels[s];
        if (label < 0 || label >= classes) {
            *loss = 0.0f / 0.0f;
            return;
        }
        total += insitu_log1pf(sum) - (x[label] - x[top]);
    }
    *loss = total / (float)n;
}
