/* total += g, in place. */
#include "kernels.h"

void accumulate_f32(float *total, const float *g, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        total[i] += g[i];
    }
}
