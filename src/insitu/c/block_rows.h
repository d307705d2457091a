/* What the kernels on block floating values do element by element, for mantissas of either width. See block.h. */
#ifndef INSITU_BLOCK_ROWS_H
#define INSITU_BLOCK_ROWS_H

#include "block.h"

typedef union {
    float f;
    uint32_t u;
} block_float;

/* 2^e; 0 below what a float has, endless above */
static inline float block_power(int32_t e)
{
    block_float v;
    v.u = e < -126 ? 0u : (uint32_t)(e < 128 ? e + 127 : 255) << 23;
    return v.f;
}

/* the 24 bits of a float that is not tiny, with its sign */
static inline int32_t block_whole(uint32_t bits)
{
    const int32_t whole = (int32_t)((bits & 0x7fffffu) | 0x800000u);
    return bits >> 31 ? -whole : whole;
}

enum { FLOAT_ENDLESS = 0x7f800000, FLOAT_TINY = 0x00800000 };

/* one block of n floats: whole numbers of 24 bits, shifted to the exponent of the largest */
ALWAYS_INLINE void block_from_floats(void *m, int8_t *e, int32_t at, const float *g, int32_t n, int32_t bytes)
{
    const block_float *v = (const block_float *)(const void *)g;
    uint32_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t size = v[i].u & 0x7fffffffu;
        most = size > most ? size : most;
    }
    const int32_t highest = (int32_t)(most >> 23), endless = most >= FLOAT_ENDLESS;
    const uint32_t top = most < FLOAT_TINY ? 0u : (most & 0x7fffffu) | 0x800000u;
    const int32_t d = block_normalise(e, top, highest - 150, bytes), limit = (1 << (8 * bytes - 1)) - 1;
    *e = endless ? BLOCK_MOST : *e;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t bits = v[i].u;
        const int32_t exponent = (int32_t)(bits >> 23 & 255u);
        int32_t x = 0;
        if (endless) {
            x = exponent < 255 ? 0 : bits >> 31 ? -limit : limit;
        } else if (exponent && d != BLOCK_NOTHING) {
            x = block_half_up(block_whole(bits), d + highest - exponent);
        }
        block_put(m, at + i, x, bytes);
    }
}

ALWAYS_INLINE void block_mask_rows(void *y, const void *m, const uint8_t *mask, int32_t rows, int32_t c, int32_t bytes)
{
    for (int32_t r = 0; r < rows; r++, mask += (c + 7) / 8) {
        for (int32_t i = 0; i < c; i++) {
            const int32_t bit = -((mask[i >> 3] >> (i & 7)) & 1);
            const int32_t v = bytes == 2 ? ((const int16_t *)m)[r * c + i] : ((const int8_t *)m)[r * c + i];
            block_put(y, r * c + i, v & bit, bytes);
        }
    }
}

enum { BLOCK_GUARD = 14 };

/* element i of both blocks, at the larger exponent, with BLOCK_GUARD bits below */
ALWAYS_INLINE int32_t block_sum(const void *a, const void *b, int32_t i, int32_t da, int32_t db, int32_t bytes)
{
    const int32_t one = 1 << BLOCK_GUARD;
    return block_round(block_get(a, i, bytes) * one, da) + block_round(block_get(b, i, bytes) * one, db);
}

/* one block: its sums are computed twice, instead of being kept */
ALWAYS_INLINE void block_add(void *y, int8_t *e, const void *a, int32_t ea, const void *b, int32_t eb, int32_t at,
                             int32_t n, int32_t bytes)
{
    const int32_t highest = ea > eb ? ea : eb, da = highest - ea, db = highest - eb;
    uint32_t most = 0;
    for (int32_t i = at; i < at + n; i++) {
        const uint32_t size = block_size_of(block_sum(a, b, i, da, db, bytes));
        most = size > most ? size : most;
    }
    const int32_t d = block_normalise(e, most, block_exponent(highest, bytes) - BLOCK_GUARD, bytes);
    for (int32_t i = at; i < at + n; i++) {
        block_put(y, i, d == BLOCK_NOTHING ? 0 : block_round(block_sum(a, b, i, da, db, bytes), d), bytes);
    }
}

ALWAYS_INLINE void block_expand(void *y, int8_t *ye, const void *m, const int8_t *e, int32_t n, int32_t h, int32_t w,
                                int32_t c, int32_t share, int32_t k, int32_t bytes)
{
    for (int32_t image = 0; image < n; image++, e++) {
        for (int32_t r = 0; r < h; r++, ye++) {
            const int32_t sum = *e < BLOCK_LEAST || *e + k < BLOCK_ZERO ? BLOCK_ZERO : *e + k;
            *ye = (int8_t)(sum < BLOCK_MOST ? sum : BLOCK_MOST);
        }
        for (int32_t i = 0; i < c; i++) {
            const int32_t from = image * c + i;
            const int32_t v = bytes == 2 ? ((const int16_t *)m)[from] : ((const int8_t *)m)[from];
            const int32_t x = block_half_up(v * share, BLOCK_SHARE);
            for (int32_t p = 0; p < h * w; p++) {
                block_put(y, (image * h * w + p) * c + i, x, bytes);
            }
        }
    }
}

ALWAYS_INLINE void block_bias_grad(int32_t *db, int8_t *de, const void *m, const int8_t *e, int32_t blocks,
                                   int32_t pixels, int32_t c, int32_t room, int32_t bytes)
{
    const int32_t highest = block_highest(e, blocks);
    *de = block_sum_exponent(block_exponent(highest, bytes) - room);
    for (int32_t o = 0; o < c; o++) {
        db[o] = 0;
    }
    for (int32_t r = 0; r < blocks; r++) {
        const int32_t d = highest - e[r] - room;
        for (int32_t p = r * pixels; p < (r + 1) * pixels; p++) {
            for (int32_t o = 0; o < c; o++) {
                db[o] += block_round(block_get(m, p * c + o, bytes), d);
            }
        }
    }
}

#endif
