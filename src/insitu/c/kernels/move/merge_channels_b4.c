/* w[r,c] = trained[r, where[c]] or, if that is negative, fixed[r, -1 - where[c]]. Not in place. */
#include "kernels.h"

void merge_channels_b4(void *w, const void *trained, const void *fixed, const int32_t *where, int32_t rows,
                       int32_t channels, int32_t count)
{
    const uint32_t *a = trained, *b = fixed;
    uint32_t *y = w;
    for (int32_t r = 0; r < rows; r++, a += count, b += channels - count, y += channels) {
        for (int32_t c = 0; c < channels; c++) {
            y[c] = where[c] >= 0 ? a[where[c]] : b[-1 - where[c]];
        }
    }
}
