/* round(x * by), ties up, limited to +-limit: for any multiplier. For almost all, step_of is enough. */
#include "kernels.h"

int32_t times_s32b(int32_t x, const block_multiplier *by, int32_t limit)
{
    const int64_t product = (int64_t)x * by->whole;
    int64_t y = product > limit ? limit : product < -limit ? -limit : product;
    if (by->endless) {
        return product > 0 ? limit : product < 0 ? -limit : 0;
    }
    if (by->shift > 0) {
        y = ((product >> ((by->shift < 62 ? by->shift : 62) - 1)) + 1) >> 1;
    } else {
        y *= (int64_t)1 << (by->shift > -31 ? -by->shift : 31);
    }
    return (int32_t)(y > limit ? limit : y < -limit ? -limit : y);
}
