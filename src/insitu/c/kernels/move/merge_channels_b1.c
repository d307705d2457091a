/* w[r,c] = trained[r, where[c]] or, if that is negative, fixed[r, -1 - where[c]]. Not in place. */
#include "isa/copy.h"
#include "kernels.h"

void merge_channels_b1(void *w, const void *trained, const void *fixed, const int32_t *where, int32_t rows,
                       int32_t channels, int32_t count)
{
    for (int32_t c = 0; c < channels; c++) { /* rows are short: channel by channel, the place is looked up once */
        const int32_t from = where[c], step = from >= 0 ? count : channels - count;
        const uint8_t *x = from >= 0 ? (const uint8_t *)trained + from : (const uint8_t *)fixed + (-1 - from);
        copy_column((uint8_t *)w + c, channels, x, step, rows);
    }
}
