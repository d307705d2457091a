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

/* one block of floats, `pixels` times n of them, c apart: whole numbers of 24 bits, shifted to the exponent of the
 * largest */
ALWAYS_INLINE void block_from_floats(void *m, int8_t *e, int32_t at, const float *g, int32_t pixels, int32_t n,
                                     int32_t c, int32_t bytes)
{
    const block_float *v = (const block_float *)(const void *)g;
    uint32_t most = 0;
    for (int32_t p = 0; p < pixels; p++) {
        for (int32_t i = 0; i < n; i++) {
            const uint32_t size = v[p * c + i].u & 0x7fffffffu;
            most = size > most ? size : most;
        }
    }
    const int32_t highest = (int32_t)(most >> 23), endless = most >= FLOAT_ENDLESS, limit = block_limit(bytes);
    const int32_t d = block_normalise(e, 0xffffffu, most < FLOAT_TINY ? 2 * BLOCK_ZERO : highest - 150, bytes);
    *e = endless ? BLOCK_MOST : *e;
    for (int32_t p = 0; p < pixels; p++) {
        for (int32_t i = 0; i < n; i++) {
            const uint32_t bits = v[p * c + i].u;
            const int32_t exponent = (int32_t)(bits >> 23 & 255u);
            int32_t x = 0;
            if (endless) {
                x = exponent < 255 ? 0 : bits >> 31 ? -limit : limit;
            } else if (exponent && d != BLOCK_NOTHING) {
                x = block_short(block_whole(bits), d + highest - exponent, bytes);
            }
            block_put(m, at + p * c + i, x, bytes);
        }
    }
}

ALWAYS_INLINE void block_to_rows(void *m, int8_t *e, const float *g, int32_t rows, int32_t pixels, int32_t c,
                                 int32_t bytes)
{
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t k = 0; k < c; k += BLOCK_GROUP, e++) {
            const int32_t at = r * pixels * c + k;
            block_from_floats(m, e, at, g + at, pixels, block_width(k, c), c, bytes);
        }
    }
}

ALWAYS_INLINE void block_from_rows(float *g, const void *m, const int8_t *e, int32_t rows, int32_t pixels, int32_t c,
                                   int32_t bytes)
{
    for (int32_t i = 0; i < rows * pixels; i++) {
        for (int32_t k = 0; k < c; k++) {
            const float factor = block_power(e[i / pixels * block_groups(c) + k / BLOCK_GROUP]);
            g[i * c + k] = (float)block_raw(m, i * c + k, bytes) * factor;
        }
    }
}

ALWAYS_INLINE void block_mask_rows(void *y, const void *m, const uint8_t *mask, int32_t rows, int32_t c, int32_t bytes)
{
    for (int32_t r = 0; r < rows; r++, mask += (c + 7) / 8) {
        for (int32_t i = 0; i < c; i++) {
            const int32_t bit = -((mask[i >> 3] >> (i & 7)) & 1);
            block_put(y, r * c + i, block_raw(m, r * c + i, bytes) & bit, bytes);
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
                             int32_t pixels, int32_t n, int32_t c, int32_t bytes)
{
    const int32_t highest = ea > eb ? ea : eb, da = highest - ea, db = highest - eb, limit = block_limit(bytes);
    uint32_t reach = 0, any = 0;
    for (int32_t p = at; p < at + pixels * c; p += c) {
        for (int32_t i = p; i < p + n; i++) {
            const int32_t sum = block_sum(a, b, i, da, db, bytes);
            reach |= block_reach(sum);
            any |= (uint32_t)sum;
        }
    }
    const int32_t exponent = any ? block_exponent(highest, bytes) - BLOCK_GUARD : 2 * BLOCK_ZERO;
    const int32_t d = block_normalise(e, reach, exponent, bytes);
    for (int32_t p = at; p < at + pixels * c; p += c) {
        for (int32_t i = p; i < p + n; i++) {
            const int32_t v = d == BLOCK_NOTHING ? 0 : block_round_even(block_sum(a, b, i, da, db, bytes), d);
            block_put(y, i, v < limit ? v : limit, bytes);
        }
    }
}

ALWAYS_INLINE void block_add_rows(void *y, int8_t *e, const void *a, const int8_t *ae, const void *b, const int8_t *be,
                                  int32_t rows, int32_t pixels, int32_t c, int32_t bytes)
{
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t k = 0; k < c; k += BLOCK_GROUP) {
            block_add(y, e++, a, *ae++, b, *be++, r * pixels * c + k, pixels, block_width(k, c), c, bytes);
        }
    }
}

ALWAYS_INLINE void block_expand(void *y, int8_t *ye, const void *m, const int8_t *e, int32_t n, int32_t h, int32_t w,
                                int32_t c, int32_t share, int32_t k, int32_t bytes)
{
    const int32_t groups = block_groups(c);
    for (int32_t i = 0; i < n * h * groups; i++) {
        const int32_t from = e[i / (h * groups) * groups + i % groups];
        const int32_t sum = from < BLOCK_LEAST || from + k < BLOCK_ZERO ? BLOCK_ZERO : from + k;
        ye[i] = (int8_t)(sum < BLOCK_MOST ? sum : BLOCK_MOST);
    }
    for (int32_t i = 0; i < n * c; i++) {
        const int32_t x = block_half_up(block_raw(m, i, bytes) * share, BLOCK_SHARE);
        for (int32_t p = 0; p < h * w; p++) {
            block_put(y, (i / c * h * w + p) * c + i % c, x, bytes);
        }
    }
}

/* one group of up to BLOCK_GROUP channels: the sum of each row, brought to their largest exponent */
ALWAYS_INLINE void block_bias_group(int32_t *db, int8_t *de, const void *m, const int8_t *e, int32_t at, int32_t rows,
                                    int32_t pixels, int32_t n, int32_t c, int32_t room, int32_t bytes)
{
    const int32_t highest = block_highest(e, rows, block_groups(c));
    *de = block_sum_exponent(block_exponent(highest, bytes) - room);
    for (int32_t o = 0; o < n; o++) {
        db[o] = 0;
    }
    for (int32_t r = 0; r < rows; r++, e += block_groups(c)) {
        int32_t sums[BLOCK_GROUP] = {0};
        for (int32_t p = 0; p < pixels; p++, at += c) {
            for (int32_t o = 0; o < n; o++) {
                sums[o] += block_get(m, at + o, bytes);
            }
        }
        for (int32_t o = 0; o < n; o++) {
            db[o] += block_round(sums[o], highest - *e - room);
        }
    }
}

ALWAYS_INLINE void block_bias_grad(int32_t *db, int8_t *de, const void *m, const int8_t *e, int32_t rows,
                                   int32_t pixels, int32_t c, int32_t room, int32_t bytes)
{
    for (int32_t k = 0; k < c; k += BLOCK_GROUP, de++, e++) {
        if (c - k >= BLOCK_GROUP) {
            block_bias_group(db + k, de, m, e, k, rows, pixels, BLOCK_GROUP, c, room, bytes);
        } else {
            block_bias_group(db + k, de, m, e, k, rows, pixels, c - k, c, room, bytes);
        }
    }
}

#endif
