/* The number of bits of a whole number: 0 for 0. */
#ifndef INSITU_ISA_BITS_H
#define INSITU_ISA_BITS_H

#include <stdint.h>

static inline int32_t scalar_bit_length(uint32_t n)
{
    int32_t bits = 0;
    for (int32_t step = 16; step; step >>= 1) {
        const int32_t more = n >> step ? step : 0;
        n >>= more;
        bits += more;
    }
    return bits + (int32_t)n;
}

#if defined(__ARM_FEATURE_CLZ) && defined(__thumb2__) && !defined(INSITU_SCALAR)
/* in assembler, since a compiler's own is not defined for 0 */
static inline int32_t arm_bit_length(uint32_t n)
{
    int32_t zeros;
    __asm__("clz %0, %1" : "=r"(zeros) : "r"(n));
    return 32 - zeros;
}
#define bit_length arm_bit_length
#else
#define bit_length scalar_bit_length
#endif

#endif
