/* y[f,b] = log2(sum over k of w[b,k] x[f,k]^power + floor) + shift, with 9 fraction bits, in integers.
 *
 * Sums are exact in 64 bits. The logarithm: the number of bits, and a table of 64 steps with straight lines between.
 */
#include "kernels.h"
#include "kernels/sound/logs.h"

static inline uint64_t sum_of(const int32_t *x, const uint16_t *w, int32_t n, int32_t power)
{
    uint64_t sum = 0;
    if (power == 1) {
        for (int32_t k = 0; k < n; k++) {
            sum += (uint64_t)(uint32_t)x[k] * w[k];
        }
        return sum;
    }
    for (int32_t k = 0; k < n; k++) {
        sum += (((uint64_t)(uint32_t)x[k] * w[k]) >> 15) * (uint32_t)x[k];
    }
    return sum;
}

void log_mel_s32(int16_t *y, const int32_t *x, const sound_bands *s)
{
    for (int32_t f = 0; f < s->frames; f++, x += s->bins) {
        const uint16_t *w = s->weights;
        for (int32_t b = 0; b < s->bands; b++) {
            const int32_t first = s->spans[2 * b], count = s->spans[2 * b + 1];
            const uint64_t sum = sum_of(x + first, w, count, s->power) + (uint64_t)s->floor;
            const int32_t found = ((logarithm(sum, s->logs) + 32) >> 6) + s->shift;
            *y++ = (int16_t)(found < -32768 ? -32768 : found > 32767 ? 32767 : found);
            w += count;
        }
    }
}
