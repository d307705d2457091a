/* step += 1, in place; starts again from the lowest number after the highest. */
#include "kernels.h"

void tick_step(int32_t *step)
{
    *step = *step == INT32_MAX ? INT32_MIN : *step + 1;
}
