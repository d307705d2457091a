/* y = min(max((x - mean) / sqrt(var + epsilon) scale + bias, lo), hi) with the statistics of x[rows,c]; gives mean and
 * 1 / sqrt(var + epsilon), and moves the running statistics towards them, in place. `clamps` says whether lo and hi
 * count. Scratch: c floats. y not in place.
 */
#include "kernels.h"
#include "kernels/norm/norm_rows.h"
#include "numbers/mathf.h"

void batch_norm_rows_f32(float *y, float *mean, float *rstd, float *running_mean, float *running_var, const float *x,
                         const float *scale, const float *bias, int32_t rows, int32_t c, float epsilon, float momentum,
                         int32_t clamps, float lo, float hi, void *scratch)
{
    float *factor = scratch;
    const float size = (float)rows, old = 1.0f - momentum;
    clear_f32(mean, c);
    clear_f32(rstd, c);
    NORM_EACH(rows, c, norm_moments(V, mean + o, rstd + o, x + at, r, t))
    for (int32_t k = 0; k < c; k++) {
        running_mean[k] = old * running_mean[k] + momentum * mean[k];
        running_var[k] = old * running_var[k] + momentum * (rstd[k] / (size - 1.0f));
        rstd[k] = 1.0f / insitu_sqrtf(rstd[k] / size + epsilon);
        factor[k] = rstd[k] * scale[k];
    }
    batch_norm_range_f32(y, x, mean, factor, bias, rows, c, clamps, lo, hi);
}
