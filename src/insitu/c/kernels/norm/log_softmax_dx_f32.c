/* dx = g - exp(y) sum of g along the middle axis of [outer,n,inner]. In place over g allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void log_softmax_dx_f32(float *dx, const float *g, const float *y, int32_t outer, int32_t n, int32_t inner)
{
    for (int32_t r = 0; r < outer; r++, g += n * inner, y += n * inner, dx += n * inner) {
        for (int32_t j = 0; j < inner; j++) {
            float sum = 0.0f;
            for (int32_t i = j; i < n * inner; i += inner) {
                sum += g[i];
            }
            for (int32_t i = j; i < n * inner; i += inner) {
                dx[i] = g[i] - insitu_expf(y[i]) * sum;
            }
        }
    }
}
