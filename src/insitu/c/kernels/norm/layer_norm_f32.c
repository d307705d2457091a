/* y = (x - mean) / sqrt(var + epsilon) scale + bias for each row of x[rows,n]; scale and bias may be null.
 * Two passes: the differences to the mean are squared, not the values. In place allowed.
 */
#include <stddef.h>

#include "kernels.h"
#include "numbers/mathf.h"

/* the differences to the mean, and the factor that makes their variance one */
static float centre(float *y, const float *x, int32_t n, float epsilon)
{
    const float mean = insitu_sumf(x, n) / (float)n;
    float lane[8] = {0.0f};
    for (int32_t i = 0; i < n; i++) {
        y[i] = x[i] - mean;
    }
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int32_t k = 0; k < 8; k++) {
            lane[k] += y[i + k] * y[i + k];
        }
    }
    for (; i < n; i++) {
        lane[i & 7] += y[i] * y[i];
    }
    return 1.0f / insitu_sqrtf(insitu_sumf(lane, 8) / (float)n + epsilon);
}

void layer_norm_f32(float *y, const float *x, const float *scale, const float *bias, int32_t rows, int32_t n,
                    float epsilon)
{
    for (int32_t r = 0; r < rows; r++, x += n, y += n) {
        const float factor = centre(y, x, n, epsilon);
        for (int32_t i = 0; i < n; i++) {
            y[i] *= factor;
        }
        for (int32_t i = 0; scale != NULL && i < n; i++) {
            y[i] *= scale[i];
        }
        for (int32_t i = 0; bias != NULL && i < n; i++) {
            y[i] += bias[i];
        }
    }
}
