/* The rate of the parameters that learn at a share of the given one. */
#include "kernels.h"

void share_rate(float *rate_out, const float *rate, const float *share)
{
    *rate_out = *rate * *share;
}
