/* One scale of scales.h, as the bits of a float. */
#ifndef INSITU_SCALE_BITS_H
#define INSITU_SCALE_BITS_H

#include "isa/inline.h"
#include "isa/quick.h"
#include "numbers/scales.h"

enum { SCALE_MANTISSA = 1 << 23 }; /* its highest bit, which is not stored */

ALWAYS_INLINE uint32_t scale_bits(const weight_scales *s, int32_t channel)
{
    int32_t high = high_word(s->m[channel], s->ratio), exponent = s->exponent + s->shift[channel];
    if (high < 1 << 29) {
        high *= 2;
        exponent--;
    }
    return ((uint32_t)exponent << 23) + (uint32_t)((high + 32) >> 6);
}

static inline uint32_t scale_mantissa(uint32_t bits)
{
    return (bits & (SCALE_MANTISSA - 1)) | SCALE_MANTISSA;
}

#endif
