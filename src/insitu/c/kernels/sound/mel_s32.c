/* y[f,b] = (sum over k of w[b,k] x[f,k] + 2^13) >> 14, at most 2^31 - 1: spans[bands] are the first bin and the number of
 * bins, weights have 15 fraction bits. Sums are exact in 64 bits. */
#include "kernels.h"

void mel_s32(int32_t *y, const int32_t *x, const uint16_t *spans, const uint16_t *weights, int32_t frames, int32_t bins,
             int32_t bands)
{
    for (int32_t f = 0; f < frames; f++, x += bins) {
        const uint16_t *w = weights;
        for (int32_t b = 0; b < bands; b++) {
            const int32_t *const from = x + spans[2 * b];
            const int32_t count = spans[2 * b + 1];
            uint64_t sum = 1u << 13;
            for (int32_t k = 0; k < count; k++) {
                sum += (uint64_t)(uint32_t)from[k] * w[k];
            }
            sum >>= 14;
            *y++ = sum > 0x7fffffffu ? 0x7fffffff : (int32_t)sum;
            w += count;
        }
    }
}
