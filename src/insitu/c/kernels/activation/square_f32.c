/* y = x x, n elements. In place allowed. */
#include "kernels.h"

void square_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        y[i] = x[i] * x[i];
    }
}
