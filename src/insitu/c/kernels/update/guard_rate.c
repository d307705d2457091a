/* The rate of this step: 0, and counted as skipped, if the loss or the rate itself is not finite. */
#include "kernels.h"
#include "numbers/count.h"

void guard_rate(float *rate_out, int32_t *count, const float *loss, const float *rate)
{
    const int32_t finite = *loss - *loss == 0.0f && *rate - *rate == 0.0f;
    *rate_out = finite ? *rate : 0.0f;
    count_more(count, !finite);
}
