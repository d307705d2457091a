/* The square root, with the machine's instruction if it has one. The instruction and the integer routine are both
 * correctly rounded, so they give the same bits.
 */
#ifndef INSITU_ISA_SQRT_H
#define INSITU_ISA_SQRT_H

#include <stdint.h>

#include "isa/machine.h"

#if INSITU_HAS_SQRT
static inline float insitu_sqrtf(float x)
{
#if defined(INSITU_SQRT)
    return INSITU_SQRT(x);
#else
    float y;
    INSITU_ASSEMBLED_SQRT(y, x);
    return y;
#endif
}
#else
/* bit by bit on the significand, scaled to an even exponent; the last bit decides the rounding */
static inline float insitu_sqrtf(float x)
{
    union {
        float f;
        uint32_t u;
    } v;
    v.f = x;
    if (!(x > 0.0f) || v.u >= 0x7f800000u) {
        return x < 0.0f ? (x - x) / (x - x) : x; /* below zero: NaN; 0, -0, inf and NaN stay */
    }
    int32_t e = (int32_t)(v.u >> 23);
    uint32_t m = v.u & 0x7fffffu;
    if (e == 0) {
        for (e = 1; !(m & 0x800000u); e--) {
            m <<= 1;
        }
    }
    m |= 0x800000u;
    e -= 127;
    if (e & 1) {
        m <<= 1;
        e--;
    }
    uint32_t root = 0, rest = 0;
    for (int32_t i = 0; i < 25; i++) { /* 25 bits of the root of m * 2^25 */
        rest = (rest << 2) | ((m >> 23) & 3u);
        m <<= 2;
        const uint32_t try = (root << 2) | 1u;
        root <<= 1;
        if (rest >= try) {
            rest -= try;
            root |= 1u;
        }
    }
    v.u = ((uint32_t)(e / 2 + 126) << 23) + (root >> 1) + (root & 1u);
    return v.f;
}
#endif

#endif
