/* y = (x - mean) scale / sqrt(var + epsilon) + bias, one of each per channel; x is [outer,c,inner].
 * Scratch: c floats, the factor of each channel. In place allowed.
 */
#include "kernels.h"
#include "numbers/mathf.h"

void batch_norm_f32(float *y, const float *x, const float *scale, const float *bias, const float *mean,
                    const float *var, int32_t outer, int32_t c, int32_t inner, float epsilon, void *scratch)
{
    float *factor = scratch;
    for (int32_t k = 0; k < c; k++) {
        factor[k] = scale[k] / insitu_sqrtf(var[k] + epsilon);
    }
    for (int32_t r = 0; r < outer; r++, x += c * inner, y += c * inner) {
        if (inner == 1) {
            for (int32_t k = 0; k < c; k++) {
                y[k] = (x[k] - mean[k]) * factor[k] + bias[k];
            }
            continue;
        }
        for (int32_t k = 0; k < c; k++) {
            const float m = mean[k], f = factor[k], b = bias[k];
            for (int32_t i = 0; i < inner; i++) {
                y[k * inner + i] = (x[k * inner + i] - m) * f + b;
            }
        }
    }
}
