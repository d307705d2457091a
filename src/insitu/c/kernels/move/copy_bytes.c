/* y = x, n bytes. In place does nothing. */
#include "isa/copy.h"
#include "kernels.h"

void copy_bytes(void *y, const void *x, int32_t n)
{
    if (y != x) { /* a device's inputs arrive where they are needed */
        copy_run(y, x, n);
    }
}
