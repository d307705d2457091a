/* The y of batch_norm_rows_f32 once more, from its other results. Scratch: c floats. In place allowed. */
#include "kernels.h"

void batch_norm_rows_again_f32(float *y, const float *x, const float *scale, const float *bias, const float *mean,
                               const float *rstd, int32_t rows, int32_t c, int32_t clamps, float lo, float hi,
                               void *scratch)
{
    float *factor = scratch;
    for (int32_t k = 0; k < c; k++) {
        factor[k] = rstd[k] * scale[k];
    }
    batch_norm_range_f32(y, x, mean, factor, bias, rows, c, clamps, lo, hi);
}
