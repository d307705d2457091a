/* dx = g scale / sqrt(var + epsilon), one factor per channel; g is [outer,c,inner]. Scratch: c floats, the factors.
 * In place over g allowed.
 */
#include "kernels.h"
#include "numbers/mathf.h"

void batch_norm_dx_f32(float *dx, const float *g, const float *scale, const float *var, int32_t outer, int32_t c,
                       int32_t inner, float epsilon, void *scratch)
{
    float *factor = scratch;
    for (int32_t k = 0; k < c; k++) {
        factor[k] = scale[k] / insitu_sqrtf(var[k] + epsilon);
    }
    for (int32_t r = 0; r < outer; r++) {
        for (int32_t k = 0; k < c; k++) {
            for (int32_t i = 0; i < inner; i++) {
                *dx++ = *g++ * factor[k];
            }
        }
    }
}
