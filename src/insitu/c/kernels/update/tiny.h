/* Numbers so small that no weight can tell them from zero. Averages of gradients that have ended would halve until they
 * are subnormal, with which processors are many times slower. The same on every machine, whatever its own mode for them.
 */
#ifndef INSITU_TINY_H
#define INSITU_TINY_H

#include "numbers/mathf.h"

enum { TINY = (127 - 55) << 23, TINY_SQUARE = (127 - 110) << 23 }; /* 2^-55 and 2^-110, as the bits of floats */

/* x, or 0 if it is smaller. In integers, because a choice of floats vectorises badly; NaN stays. */
static inline float without_tiny(float x, int32_t tiny)
{
    insitu_bits v;
    v.f = x;
    v.u &= 0u - (uint32_t)((int32_t)(v.u & 0x7fffffffu) >= tiny);
    return v.f;
}

/* the same for squares, which have no sign */
static inline float without_tiny_square(float x)
{
    insitu_bits v;
    v.f = x;
    v.u &= 0u - (uint32_t)((int32_t)v.u >= TINY_SQUARE);
    return v.f;
}

#endif
