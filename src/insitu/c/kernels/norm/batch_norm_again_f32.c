/* y = (x - mean) rstd scale + bias, the y of batch_norm_train_f32; x is [outer,c,inner]. Scratch: c floats.
 * In place allowed.
 */
#include "kernels.h"
#include "kernels/norm/normalise.h"

void batch_norm_again_f32(float *y, const float *x, const float *scale, const float *bias, const float *mean,
                          const float *rstd, int32_t outer, int32_t c, int32_t inner, void *scratch)
{
    float *factor = scratch;
    for (int32_t k = 0; k < c; k++) {
        factor[k] = rstd[k] * scale[k];
    }
    normalise(y, x, mean, factor, bias, outer, c, inner);
}
