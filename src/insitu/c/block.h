/* Block floating numbers: mantissas m of 2 bytes or 1 and one exponent e a block, for m * 2^e. ops/_block.py says what
 * each function means, docs/numerics.md what it is for. `bytes` is that of a mantissa, a literal in every kernel; a
 * mantissa of one byte is read as one of two with zeros below.
 */
#ifndef INSITU_BLOCK_H
#define INSITU_BLOCK_H

#include <stdint.h>

#include "isa/inline.h"

enum { BLOCK_ZERO = -128, BLOCK_LEAST = -120, BLOCK_MOST = 127, BLOCK_SHARE = 15 };

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

ALWAYS_INLINE int32_t block_get(const void *m, int32_t i, int32_t bytes)
{
    return bytes == 2 ? ((const int16_t *)m)[i] : ((const int8_t *)m)[i] * 256;
}

ALWAYS_INLINE void block_put(void *m, int32_t i, int32_t v, int32_t bytes)
{
    if (bytes == 2) {
        ((int16_t *)m)[i] = (int16_t)v;
    } else {
        ((int8_t *)m)[i] = (int8_t)v;
    }
}

/* the exponent that goes with block_get */
ALWAYS_INLINE int32_t block_exponent(int32_t e, int32_t bytes)
{
    return bytes == 2 ? e : e - 8;
}

static inline int32_t block_bit_length(uint32_t n)
{
    int32_t bits = 0;
    for (; n; n >>= 1) {
        bits++;
    }
    return bits;
}

static inline uint32_t block_size_of(int32_t x)
{
    return x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
}

/* the largest of n exponents */
static inline int32_t block_highest(const int8_t *e, int32_t n)
{
    int32_t most = BLOCK_ZERO;
    for (int32_t i = 0; i < n; i++) {
        most = e[i] > most ? e[i] : most;
    }
    return most;
}

/* the exponent of a sum, within what a byte holds */
static inline int8_t block_sum_exponent(int32_t e)
{
    return (int8_t)(e < BLOCK_ZERO ? BLOCK_ZERO : e > BLOCK_MOST ? BLOCK_MOST : e);
}

/* The shift that brings numbers of at most this size to 15 (or 7) bits; writes the exponent of the block, given that
 * of the numbers. BLOCK_NOTHING where all become zero. */
enum { BLOCK_NOTHING = 99 };
static inline int32_t block_normalise(int8_t *e, uint32_t most, int32_t exponent, int32_t bytes)
{
    const int32_t bits = 8 * bytes - 1;
    int32_t d = block_bit_length(most) - bits;
    if (d > 0 && ((most >> (d - 1)) + 1) >> 1 >> bits) {
        d++; /* rounding up takes a bit more */
    }
    if (most == 0 || exponent + d < BLOCK_LEAST) {
        *e = BLOCK_ZERO;
        return BLOCK_NOTHING;
    }
    *e = (int8_t)(exponent + d < BLOCK_MOST ? exponent + d : BLOCK_MOST);
    return d;
}

/* one block of n whole numbers times 2^exponent */
ALWAYS_INLINE void block_store(void *m, int8_t *e, int32_t at, const int32_t *x, int32_t n, int32_t exponent,
                               int32_t bytes)
{
    uint32_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t size = block_size_of(x[i]);
        most = size > most ? size : most;
    }
    const int32_t d = block_normalise(e, most, exponent, bytes);
    if (d == BLOCK_NOTHING) {
        for (int32_t i = 0; i < n; i++) {
            block_put(m, at + i, 0, bytes);
        }
    } else if (d > 0) {
        for (int32_t i = 0; i < n; i++) {
            block_put(m, at + i, block_half_up(x[i], d), bytes);
        }
    } else {
        for (int32_t i = 0; i < n; i++) {
            block_put(m, at + i, (int32_t)((uint32_t)x[i] << -d), bytes);
        }
    }
}

#endif
