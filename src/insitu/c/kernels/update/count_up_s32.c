/* counter + 1, in place; wraps. */
#include "kernels.h"

void count_up_s32(int32_t *counter)
{
    *counter = (int32_t)((uint32_t)*counter + 1u);
}
