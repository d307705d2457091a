/* y = x, n bytes. In place does nothing. */
#include "kernels.h"

void copy_bytes(void *y, const void *x, int32_t n)
{
    char *to = y;
    const char *from = x;
    if (to == from) { /* a device's inputs arrive where they are wanted */
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}
