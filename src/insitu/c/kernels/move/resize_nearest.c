/* y[n,i,j] = x[n, row[i], column[j]], each pixel `item` bytes; x is [n,h,w], y is [n,oh,ow]. Not in place. */
#include "kernels.h"

void resize_nearest(void *y, const void *x, const int32_t *row, const int32_t *column, int32_t n, int32_t h, int32_t w,
                    int32_t oh, int32_t ow, int32_t item)
{
    char *to = y;
    const char *from = x;
    for (int32_t b = 0; b < n; b++, from += h * w * item) {
        for (int32_t i = 0; i < oh; i++) {
            for (int32_t j = 0; j < ow; j++, to += item) {
                copy_bytes(to, from + (row[i] * w + column[j]) * item, item);
            }
        }
    }
}
