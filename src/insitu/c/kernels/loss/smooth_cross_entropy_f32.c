/* loss = mean over samples of -sum over c of t[c] log softmax(x[n])[c],
 * t[c] = (1 - smoothing) (c == label[n]) + smoothing / classes
 * As softmax_cross_entropy_f32: differences to the largest logit. A label that is not a class makes the loss NaN, so
 * that the step is skipped and counted.
 */
#include "kernels.h"
#include "numbers/mathf.h"

void smooth_cross_entropy_f32(float *loss, const float *x, const int32_t *labels, int32_t n, int32_t classes,
                              float smoothing)
{
    float total = 0.0f;
    for (int32_t s = 0; s < n; s++, x += classes) {
        int32_t top = 0;
        float sum = 0.0f, below = 0.0f;
        for (int32_t c = 1; c < classes; c++) {
            top = x[c] > x[top] ? c : top;
        }
        for (int32_t c = 0; c < classes; c++) {
            sum += c == top ? 0.0f : insitu_expf(x[c] - x[top]);
            below += x[c] - x[top];
        }
        const int32_t label = labels[s];
        if (label < 0 || label >= classes) {
            *loss = 0.0f / 0.0f;
            return;
        }
        const float own = (1.0f - smoothing) * (x[label] - x[top]);
        total += insitu_log1pf(sum) - (own + smoothing / (float)classes * below);
    }
    *loss = total / (float)n;
}
