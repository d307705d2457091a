/* total += g, in place; nothing if there is a gate and it is 0. */
#include "kernels.h"

void accumulate_f32(float *total, const float *g, const float *gate, int32_t n)
{
    if (gate != NULL && *gate == 0.0f) {
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        total[i] += g[i];
    }
}
