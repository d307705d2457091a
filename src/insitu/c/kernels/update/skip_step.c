/* Counts a skipped step; the counter stops at the largest number. */
#include "kernels.h"
#include "numbers/count.h"

void skip_step(int32_t *count)
{
    count_more(count, 1);
}
