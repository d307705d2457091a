/* The number of bits of an unsigned integer: 0 for 0. */
#ifndef INSITU_ISA_BITS_H
#define INSITU_ISA_BITS_H

#include <stdint.h>

#include "isa/machine.h"

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

#if INSITU_ARM_CLZ
#include "isa/dsp/bits.h"
#else
#define bit_length scalar_bit_length
#endif

#endif
