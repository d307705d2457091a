/* dx = g (softmax(x) sum(target) - target) / samples. In place over x allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void soft_cross_entropy_dx_f32(float *dx, const float *g, const float *x, const float *target, int32_t n,
                               int32_t classes)
{
    const float scale = *g / (float)n;
    for (int32_t s = 0; s < n; s++, x += classes, dx += classes, target += classes) {
        float top = x[0], sum = 0.0f, weight = 0.0f;
        for (int32_t c = 1; c < classes; c++) {
            top = insitu_max(x[c], top);
        }
        for (int32_t c = 0; c < classes; c++) {
            dx[c] = insitu_expf(x[c] - top);
            sum += dx[c];
            weight += target[c];
        }
        const float each = weight / sum;
        for (int32_t c = 0; c < classes; c++) {
            dx[c] = scale * (dx[c] * each - target[c]);
        }
    }
}
