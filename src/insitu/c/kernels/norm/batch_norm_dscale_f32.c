/* dscale = the sum of g (x - mean) / sqrt(var + epsilon) per channel; x is [outer,c,inner]. Not in place. */
#include "isa/fma.h"
#include "kernels.h"
#include "numbers/mathf.h"

void batch_norm_dscale_f32(float *dscale, const float *g, const float *x, const float *mean, const float *var,
                           int32_t outer, int32_t c, int32_t inner, float epsilon)
{
    clear_f32(dscale, c);
    for (int32_t r = 0; r < outer; r++, g += c * inner, x += c * inner) {
        if (inner == 1) {
            for (int32_t k = 0; k < c; k++) {
                dscale[k] = fma_f32(g[k], x[k] - mean[k], dscale[k]);
            }
            continue;
        }
        for (int32_t k = 0; k < c; k++) {
            for (int32_t i = k * inner; i < (k + 1) * inner; i++) {
                dscale[k] = fma_f32(g[i], x[i] - mean[k], dscale[k]);
            }
        }
    }
    for (int32_t k = 0; k < c; k++) {
        dscale[k] /= insitu_sqrtf(var[k] + epsilon);
    }
}
