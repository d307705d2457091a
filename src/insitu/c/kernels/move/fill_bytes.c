/* y = byte, n times. 255 gives NaN for floats, and -1 for integers. */
#include "kernels.h"

void fill_bytes(void *y, int32_t byte, int32_t n)
{
    uint8_t *to = y;
    for (int32_t i = 0; i < n; i++) {
        to[i] = (uint8_t)byte;
    }
}
