/* counter + samples, in place; wraps. */
#include "kernels.h"

void count_up_s32(int32_t *counter, int32_t samples)
{
    *counter = (int32_t)((uint32_t)*counter + (uint32_t)samples);
}
