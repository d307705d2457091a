/* y[i] = y[i + by] for i < n: moves bytes to the front by `by`. In pieces of `by` bytes, which do not overlap. */
#include "isa/copy.h"
#include "kernels.h"

void slide_bytes(void *y, int32_t by, int32_t n)
{
    char *to = y;
    for (int32_t i = 0; i < n; i += by) {
        copy_run(to + i, to + i + by, n - i < by ? n - i : by);
    }
}
