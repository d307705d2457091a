/* y[o,i] = mean over r of x[outer(o) + step(r) + i]: see reduce_shape. Not in place. */
#include "kernels.h"

void mean_f32(float *y, const float *x, const reduce_shape *s)
{
    sum_reduce_f32(y, x, s);
    for (int32_t i = 0; i < s->outer * s->inner; i++) {
        y[i] /= (float)s->reduce;
    }
}
