/* Binary logarithms and powers of two in integers: tables of 64 steps with straight lines between, 15 fraction bits. */
#ifndef INSITU_SOUND_LOGS_H
#define INSITU_SOUND_LOGS_H

#include "isa/bits.h"

/* log2(x), of 0 that of 1 */
static inline int32_t logarithm(uint64_t x, const uint16_t *logs)
{
    const uint32_t upper = (uint32_t)(x >> 32), lower = (uint32_t)x | !x;
    const int32_t bits = upper ? 32 + bit_length(upper) : bit_length(lower);
    const uint32_t mantissa = (uint32_t)(((x | !x) << (64 - bits)) >> 32);
    const uint32_t at = (mantissa >> 25) & 63u, share = (mantissa >> 9) & 0xffffu;
    return ((bits - 1) << 15) + (int32_t)(logs[at] + (((logs[at + 1] - logs[at]) * share) >> 16));
}

/* 2^x, rounded, for x from 0 to 30 */
static inline int32_t power_of_two(int32_t x, const uint16_t *powers)
{
    const int32_t at = (x >> 9) & 63, share = x & 511;
    const int32_t mantissa = 32768 + powers[at] + (((powers[at + 1] - powers[at]) * share) >> 9);
    return (int32_t)((((int64_t)mantissa << (x >> 15)) + 16384) >> 15);
}

#endif
