/* y = (x / (floor + m)^gain + bias)^root - bias^root with 10 fraction bits, in integers; n elements. */
#include "kernels.h"
#include "kernels/sound/logs.h"

/* a product with a number that has 15 fraction bits */
static inline int32_t part_of(int32_t x, int32_t part)
{
    return (int32_t)(((int64_t)x * part) >> 15);
}

/* x / (floor + m)^gain with 16 fraction bits */
static inline int32_t ratio(int32_t x, int32_t m, const sound_ratio *s)
{
    const int32_t past = logarithm((uint64_t)(uint32_t)m + (uint32_t)s->floor, s->logs);
    const int32_t found = logarithm((uint32_t)x, s->logs) - part_of(past, s->gain) + s->shift;
    return x > 0 && found >= 0 ? power_of_two(found < 30 << 15 ? found : 30 << 15, s->powers) : 0;
}

void pcen_s32(int16_t *y, const int32_t *x, const int32_t *m, const sound_ratio *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        const int32_t log = logarithm((uint32_t)ratio(x[i], m[i], s) + (uint32_t)s->bias, s->logs) - (16 << 15);
        const int32_t power = part_of(log, s->root) + (10 << 15);
        const int32_t found = power_of_two(power > 0 ? power : 0, s->powers) - s->less;
        y[i] = (int16_t)(found < -32768 ? -32768 : found > 32767 ? 32767 : found);
    }
}
