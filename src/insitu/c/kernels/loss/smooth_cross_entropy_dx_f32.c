/* dx[n,c] = g (softmax(x[n])[c] - (1 - smoothing) (c == label[n]) - smoothing / classes) / samples
 * That of whole labels, with a share of each label given to all classes. In place over x allowed. A label that is not a
 * class: the loss is NaN, and the step is skipped.
 */
#include "kernels.h"

void smooth_cross_entropy_dx_f32(float *dx, const float *g, const float *x, const int32_t *labels, int32_t n,
                                 int32_t classes, float smoothing)
{
    const float given = smoothing * (*g / (float)n), each = given / (float)classes;
    softmax_cross_entropy_dx_f32(dx, g, x, labels, n, classes);
    for (int32_t s = 0; s < n; s++, dx += classes) {
        for (int32_t c = 0; c < classes; c++) {
            dx[c] -= each;
        }
        if (labels[s] >= 0 && labels[s] < classes) {
            dx[labels[s]] += given;
        }
    }
}
