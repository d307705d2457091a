/* Fixed-point arithmetic: the scalar steps of integer kernels that are not in requant.h.
 *
 * Right shifts of negative numbers are arithmetic on every compiler we build with.
 */
#ifndef INSITU_FIXED_H
#define INSITU_FIXED_H

#include <stdint.h>

/* round(a b / 2^31), half up; a and b are never both -2^31 here, so it cannot overflow */
static inline int32_t fixed_mul(int32_t a, int32_t b)
{
    /* a logical shift gives the same low 32 bits, and more machines have it for vectors */
    return (int32_t)((uint64_t)((int64_t)a * b + (1 << 30)) >> 31);
}

/* round(x / 2^n), half away from zero */
static inline int32_t fixed_shift(int32_t x, int32_t n)
{
    const int32_t mask = (int32_t)((1u << n) - 1u);
    return (x >> n) + ((x & mask) > (mask >> 1) + (x < 0));
}

static inline int8_t fixed_clamp(int32_t x, int32_t lo, int32_t hi)
{
    x = x < lo ? lo : x;
    return (int8_t)(x > hi ? hi : x);
}

#endif
