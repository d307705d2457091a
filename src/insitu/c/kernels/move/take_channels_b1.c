/* y[r,k] = x[r, which[k]]. Not in place. */
#include "kernels.h"

void take_channels_b1(void *y, const void *x, const int32_t *which, int32_t rows, int32_t channels, int32_t count)
{
    const uint8_t *from = x;
    uint8_t *to = y;
    for (int32_t r = 0; r < rows; r++, from += channels, to += count) {
        for (int32_t k = 0; k < count; k++) {
            to[k] = from[which[k]];
        }
    }
}
