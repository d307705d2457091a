/* y = (x - mean) / sqrt(var + epsilon) scale + bias with the statistics of x[outer,c,inner]; gives mean and
 * 1 / sqrt(var + epsilon), and moves the running statistics towards them, in place. Two passes: the differences to the
 * mean are squared, not the values. Scratch: c floats. y not in place.
 */
#include "kernels.h"
#include "kernels/norm/channel_sum.h"
#include "kernels/norm/normalise.h"
#include "numbers/mathf.h"

/* sum of (x - m)^power, power 1 or 2, for each channel */
static void moments(float *sum, const float *x, const float *m, int32_t outer, int32_t c, int32_t inner, float *part)
{
    clear_f32(sum, c);
    clear_f32(part, c);
    for (int32_t r = 0; r < outer; r++, x += c * inner) {
        for (int32_t k = 0; inner == 1 && k < c; k++) {
            part[k] += m ? (x[k] - m[k]) * (x[k] - m[k]) : x[k];
        }
        for (int32_t k = 0; inner > 1 && k < c; k++) {
            float row = 0.0f;
            for (int32_t i = k * inner; i < (k + 1) * inner; i++) {
                row += m ? (x[i] - m[k]) * (x[i] - m[k]) : x[i];
            }
            part[k] += row;
        }
        channel_flush(sum, part, c, r, outer);
    }
}

void batch_norm_train_f32(float *y, float *mean, float *rstd, float *running_mean, float *running_var, const float *x,
                          const float *scale, const float *bias, int32_t outer, int32_t c, int32_t inner,
                          float epsilon, float momentum, void *scratch)
{
    float *part = scratch;
    const float count = (float)(outer * inner), old = 1.0f - momentum;
    moments(mean, x, NULL, outer, c, inner, part);
    for (int32_t k = 0; k < c; k++) {
        mean[k] /= count;
    }
    moments(rstd, x, mean, outer, c, inner, part);
    for (int32_t k = 0; k < c; k++) {
        running_mean[k] = old * running_mean[k] + momentum * mean[k];
        running_var[k] = old * running_var[k] + momentum * (rstd[k] / (count - 1.0f));
        rstd[k] = 1.0f / insitu_sqrtf(rstd[k] / count + epsilon);
        part[k] = rstd[k] * scale[k];
    }
    normalise(y, x, mean, part, bias, outer, c, inner);
}
