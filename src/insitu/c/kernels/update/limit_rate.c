/* The rate times the factor that reduces the norm of g to `clip`; 0 if g is not finite. Both are counted. */
#include "kernels.h"

void limit_rate(float *rate_out, int32_t *count, const float *rate, const float *g, float clip, int32_t n)
{
    *rate_out = *rate * clip_factor(g, *rate, clip, count, n);
}
