/* Block floating numbers: mantissas m of 2 bytes or 1 and one exponent e per block, for m * 2^e. A block is BLOCK_GROUP
 * channels of a row of pixels; exponents are stored row by row, group by group. ops/_block.py defines each function,
 * docs/numerics.md says what it is for. `bytes` is the size of a mantissa, a literal in every kernel; a one-byte
 * mantissa is read as two bytes with zeros below.
 */
#ifndef INSITU_BLOCK_H
#define INSITU_BLOCK_H

#include <stdint.h>

#include "isa/bits.h"
#include "isa/inline.h"

enum { BLOCK_ZERO = -128, BLOCK_LEAST = -120, BLOCK_MOST = 127, BLOCK_SHARE = 15, BLOCK_GROUP = 16 };

/* the number of groups of this many channels */
static inline int32_t block_groups(int32_t c)
{
    return (c + BLOCK_GROUP - 1) / BLOCK_GROUP;
}

/* the number of channels of the group that begins with channel c of n */
static inline int32_t block_width(int32_t c, int32_t n)
{
    return n - c < BLOCK_GROUP ? n - c : BLOCK_GROUP;
}

/* x / 2^d to the nearest, halves up, for d > 0 */
ALWAYS_INLINE int32_t block_half_up(int32_t x, int32_t d)
{
    return ((x >> (d < 32 ? d - 1 : 31)) + 1) >> 1;
}

/* the same for any d; a negative one multiplies */
ALWAYS_INLINE int32_t block_round(int32_t x, int32_t d)
{
    return d > 0 ? block_half_up(x, d) : (int32_t)((uint32_t)x << -d);
}

/* the same with ties to even, for |x| < 2^30 and d < 31 */
ALWAYS_INLINE int32_t block_round_even(int32_t x, int32_t d)
{
    return d > 0 ? (x + (1 << (d - 1)) - 1 + (x >> d & 1)) >> d : (int32_t)((uint32_t)x << -d);
}

ALWAYS_INLINE int32_t block_get(const void *m, int32_t i, int32_t bytes)
{
    return bytes == 2 ? ((const int16_t *)m)[i] : ((const int8_t *)m)[i] * 256;
}

/* the number as it is stored */
ALWAYS_INLINE int32_t block_raw(const void *m, int32_t i, int32_t bytes)
{
    return bytes == 2 ? ((const int16_t *)m)[i] : ((const int8_t *)m)[i];
}

ALWAYS_INLINE void block_put(void *m, int32_t i, int32_t v, int32_t bytes)
{
    if (bytes == 2) {
        ((int16_t *)m)[i] = (int16_t)v;
    } else {
        ((int8_t *)m)[i] = (int8_t)v;
    }
}

/* the largest mantissa */
ALWAYS_INLINE int32_t block_limit(int32_t bytes)
{
    return bytes == 2 ? 32767 : 127;
}

/* the exponent that goes with block_get */
ALWAYS_INLINE int32_t block_exponent(int32_t e, int32_t bytes)
{
    return bytes == 2 ? e : e - 8;
}

static inline uint32_t block_size_of(int32_t x)
{
    return x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
}

/* the bits that x needs without its sign; for several numbers, or-ed */
ALWAYS_INLINE uint32_t block_reach(int32_t x)
{
    return (uint32_t)(x ^ (x >> 31));
}

/* the largest of n exponents, each `step` after the last */
static inline int32_t block_highest(const int8_t *e, int32_t n, int32_t step)
{
    int32_t most = BLOCK_ZERO;
    for (int32_t i = 0; i < n; i++, e += step) {
        most = *e > most ? *e : most;
    }
    return most;
}

/* the exponent of a sum, limited to a byte */
static inline int8_t block_sum_exponent(int32_t e)
{
    return (int8_t)(e < BLOCK_ZERO ? BLOCK_ZERO : e > BLOCK_MOST ? BLOCK_MOST : e);
}

/* The shift that brings numbers of this size to 15 (or 7) bits and a sign; writes the exponent of the block, given
 * that of the numbers. BLOCK_NOTHING if all become zero. */
enum { BLOCK_NOTHING = 99 };
static inline int32_t block_normalise(int8_t *e, uint32_t reach, int32_t exponent, int32_t bytes)
{
    const int32_t d = bit_length(reach) - (8 * bytes - 1);
    if (exponent + d < BLOCK_LEAST) {
        *e = BLOCK_ZERO;
        return BLOCK_NOTHING;
    }
    *e = (int8_t)(exponent + d < BLOCK_MOST ? exponent + d : BLOCK_MOST);
    return d;
}

/* the stored form of a number, after a shift to the right */
ALWAYS_INLINE int32_t block_short(int32_t x, int32_t d, int32_t bytes)
{
    const int32_t y = block_half_up(x, d), most = block_limit(bytes);
    return y < most ? y : most;
}

/* one block of `pixels` pixels of n channels: x[p * pitch + i] 2^exponent becomes m[at + p * step + i] */
ALWAYS_INLINE void block_store(void *m, int8_t *e, int32_t at, int32_t step, const int32_t *x, int32_t pitch,
                               int32_t pixels, int32_t n, int32_t exponent, int32_t bytes)
{
    uint32_t reach = 0, any = 0;
    for (int32_t p = 0; p < pixels; p++) {
        for (int32_t i = 0; i < n; i++) {
            reach |= block_reach(x[p * pitch + i]);
            any |= (uint32_t)x[p * pitch + i];
        }
    }
    const int32_t d = block_normalise(e, reach, any ? exponent : 2 * BLOCK_ZERO, bytes);
    for (int32_t p = 0; p < pixels; p++, at += step, x += pitch) {
        if (d == BLOCK_NOTHING) {
            for (int32_t i = 0; i < n; i++) {
                block_put(m, at + i, 0, bytes);
            }
        } else if (d > 0) {
            for (int32_t i = 0; i < n; i++) {
                block_put(m, at + i, block_short(x[i], d, bytes), bytes);
            }
        } else {
            for (int32_t i = 0; i < n; i++) {
                block_put(m, at + i, (int32_t)((uint32_t)x[i] << -d), bytes);
            }
        }
    }
}

/* one row of pixels, all groups of its c channels */
ALWAYS_INLINE void block_store_row(void *m, int8_t *e, int32_t at, const int32_t *x, int32_t pixels, int32_t c,
                                   int32_t exponent, int32_t bytes)
{
    for (int32_t k = 0; k < c; k += BLOCK_GROUP, e++) {
        if (c - k >= BLOCK_GROUP) {
            block_store(m, e, at + k, c, x + k, c, pixels, BLOCK_GROUP, exponent, bytes);
        } else {
            block_store(m, e, at + k, c, x + k, c, pixels, c - k, exponent, bytes);
        }
    }
}

#endif
