/* dx[n,c] = g (softmax(x[n])[c] - (1 - smoothing) (c == label[n]) - smoothing / classes) / samples
 * In place over x allowed. A label that is not a class: the loss is NaN, and the step is skipped.
 */
#include "kernels.h"
#include "numbers/mathf.h"

void smooth_cross_entropy_dx_f32(float *dx, const float *g, const float *x, const int32_t *labels, int32_t n,
                                 int32_t classes, float smoothing)
{
    const float scale = *g / (float)n, share = scale * (smoothing / (float)classes);
    for (int32_t s = 0; s < n; s++, x += classes, dx += classes) {
        float top = x[0], sum = 0.0f;
        for (int32_t c = 1; c < classes; c++) {
            top = insitu_max(x[c], top);
        }
        for (int32_t c = 0; c < classes; c++) {
            dx[c] = insitu_expf(x[c] - top);
            sum += dx[c];
        }
        const float each = scale / sum;
        for (int32_t c = 0; c < classes; c++) {
            dx[c] = dx[c] * each - share;
        }
        if (labels[s] >= 0 && labels[s] < classes) {
            dx[labels[s]] -= scale * (1.0f - smoothing);
        }
    }
}
