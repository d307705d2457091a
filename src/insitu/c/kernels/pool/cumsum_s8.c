/* y[i] = requantised (x[0] - x_zero) + .. + (x[i] - x_zero) along the middle axis of x[outer,n,inner]; from the last
 * element if `reverse`, without x[i] if `exclusive`. The mask, if any, has rows of `channels` bits. In place allowed.
 */
#include "kernels.h"

static void mark(uint8_t *mask, int32_t at, int32_t channels, int64_t value, const requant *q)
{
    const int32_t c = at % channels;
    const uint32_t inside = value >= q->lo && value <= q->hi;
    uint8_t *byte = mask_row(mask, at / channels, channels) + (c >> 3);
    *byte = (uint8_t)(*byte | inside << (c & 7));
}

void cumsum_s8(int8_t *y, uint8_t *mask, const int8_t *x, int32_t outer, int32_t n, int32_t inner, int32_t reverse,
               int32_t exclusive, int32_t channels, const requant *q)
{
    const int32_t step = reverse ? -inner : inner;
    clear_mask(mask, outer * n * inner / channels * ((channels + 7) / 8));
    for (int32_t r = 0; r < outer; r++) {
        for (int32_t j = 0; j < inner; j++) {
            int32_t sum = 0, at = (r * n + (reverse ? n - 1 : 0)) * inner + j;
            for (int32_t i = 0; i < n; i++, at += step) {
                const int32_t before = sum;
                sum += x[at] - q->x_zero;
                const int32_t acc = exclusive ? before : sum;
                if (mask) {
                    mark(mask, at, channels, requant_value(acc, 0, q), q);
                }
                y[at] = requant_at(acc, 0, q);
            }
        }
    }
}
