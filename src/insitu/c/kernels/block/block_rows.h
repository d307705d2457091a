/* The elementwise kernels on block floating values, for mantissas of either width. See block.h. */
#ifndef INSITU_BLOCK_ROWS_H
#define INSITU_BLOCK_ROWS_H

#include "isa/copy.h"
#include "isa/mantissa_mask.h"
#include "isa/mantissa_sums.h"
#include "isa/mantissas.h"

typedef union {
    float f;
    uint32_t u;
} block_float;

/* 2^e; 0 if that underflows, infinite if it overflows */
static inline float block_power(int32_t e)
{
    block_float v;
    v.u = e < -126 ? 0u : (uint32_t)(e < 128 ? e + 127 : 255) << 23;
    return v.f;
}

/* the 24 bits of a normal float, with its sign */
static inline int32_t block_whole(uint32_t bits)
{
    const int32_t whole = (int32_t)((bits & 0x7fffffu) | 0x800000u);
    return bits >> 31 ? -whole : whole;
}

enum { FLOAT_ENDLESS = 0x7f800000, FLOAT_TINY = 0x00800000 };

/* one block of floats, `pixels` times n of them, c apart: integers of 24 bits, shifted to the exponent of the
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
    const int32_t together = c % 8 == 0, n = together ? rows * c : c; /* then the bits of all rows are contiguous */
    for (int32_t r = 0; r < (together ? 1 : rows); r++, mask += (c + 7) / 8) {
        mask_mantissas(y, m, mask, r * c, n, bytes);
    }
}

enum { BLOCK_GUARD = 14 };

/* Two blocks at the larger exponent, with BLOCK_GUARD extra bits: up to that distance the smaller one loses nothing,
 * and `up` is its factor; beyond, it is 0. */
typedef struct {
    const void *large, *small;
    int32_t distance, up;
} block_terms;

static inline block_terms block_terms_of(const void *a, int32_t ea, const void *b, int32_t eb)
{
    const int32_t d = ea > eb ? ea - eb : eb - ea;
    const block_terms t = {ea > eb ? a : b, ea > eb ? b : a, d, d <= BLOCK_GUARD ? 1 << (BLOCK_GUARD - d) : 0};
    return t;
}

ALWAYS_INLINE int32_t block_sum(const block_terms *t, int32_t i, int32_t near, int32_t bytes)
{
    const int32_t one = 1 << BLOCK_GUARD, x = block_get(t->large, i, bytes) * one, y = block_get(t->small, i, bytes);
    return x + (near ? y * t->up : block_half_up(y * one, t->distance));
}

/* the bits that the sums of one block need, and whether there are any */
ALWAYS_INLINE uint32_t block_add_reach(int32_t *any, const block_terms *given, int32_t at, int32_t pixels, int32_t n,
                                       int32_t c, int32_t near, int32_t bytes)
{
    const block_terms t = *given;
    uint32_t reach = 0;
    for (int32_t p = at; p < at + pixels * c; p += c) {
        for (int32_t i = p; i < p + n; i++) {
            const int32_t sum = block_sum(&t, i, near, bytes);
            reach |= block_reach(sum);
            *any |= sum;
        }
    }
    return reach;
}

ALWAYS_INLINE void block_add_put(void *y, const block_terms *given, int32_t d, int32_t at, int32_t pixels, int32_t n,
                                 int32_t c, int32_t near, int32_t bytes)
{
    const block_terms t = *given;
    for (int32_t p = at; p < at + pixels * c; p += c) {
        for (int32_t i = p; i < p + n; i++) {
            const int32_t v = block_round_even(block_sum(&t, i, near, bytes), d), limit = block_limit(bytes);
            block_put(y, i, v < limit ? v : limit, bytes);
        }
    }
}

/* one block: its sums are computed twice instead of being stored */
ALWAYS_INLINE void block_add(void *y, int8_t *e, const void *a, int32_t ea, const void *b, int32_t eb, int32_t at,
                             int32_t pixels, int32_t n, int32_t c, int32_t bytes)
{
    const block_terms t = block_terms_of(a, ea, b, eb);
    const int32_t near = t.distance <= BLOCK_GUARD, exponent = block_exponent(ea > eb ? ea : eb, bytes) - BLOCK_GUARD;
    int32_t any = 0;
    const uint32_t reach = near ? block_add_reach(&any, &t, at, pixels, n, c, 1, bytes)
                                : block_add_reach(&any, &t, at, pixels, n, c, 0, bytes);
    const int32_t d = block_normalise(e, reach, any ? exponent : 2 * BLOCK_ZERO, bytes);
    if (d == BLOCK_NOTHING) {
        for (int32_t i = 0; i < pixels * n; i++) {
            block_put(y, at + i / n * c + i % n, 0, bytes);
        }
    } else if (near && d > 0) {
        block_add_put(y, &t, d, at, pixels, n, c, 1, bytes);
    } else {
        block_add_put(y, &t, d, at, pixels, n, c, near, bytes);
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
    for (int32_t i = 0; i < n; i++) {
        const int32_t first = i * h * w * c;
        for (int32_t o = 0; o < c; o++) {
            block_put(y, first + o, block_half_up(block_raw(m, i * c + o, bytes) * share, BLOCK_SHARE), bytes);
        }
        for (int32_t p = 1; p < h * w; p++) {
            copy_run((int8_t *)y + (first + p * c) * bytes, (int8_t *)y + first * bytes, c * bytes);
        }
    }
}

/* the contribution of a row of n channels that is scaled down by d bits, or up by many */
ALWAYS_INLINE void block_bias_far(int32_t *db, const void *m, int32_t at, int32_t pixels, int32_t n, int32_t c,
                                  int32_t d, int32_t bytes)
{
    const int8_t none = 0;
    int32_t sums[BLOCK_GROUP] = {0};
    mantissa_sums(sums, m, at, c, &none, 0, 0, 1, pixels, n, bytes);
    for (int32_t o = 0; o < n; o++) {
        db[o] += block_round(sums[o] * (bytes == 2 ? 1 : 256), d);
    }
}

/* one group of n channels: the sum of each row, brought to their largest exponent */
ALWAYS_INLINE void block_bias_group(int32_t *db, int8_t *de, const void *m, const int8_t *e, int32_t at, int32_t rows,
                                    int32_t pixels, int32_t n, int32_t c, int32_t room, int32_t bytes)
{
    const int32_t groups = block_groups(c), highest = block_highest(e, rows, groups), up = room - highest;
    *de = block_sum_exponent(block_exponent(highest, bytes) - room);
    for (int32_t o = 0; o < n; o++) {
        db[o] = 0;
    }
    mantissa_sums(db, m, at, c, e, groups, up, rows, pixels, n, bytes); /* the rows that lose nothing: in any order */
    for (int32_t o = 0; bytes == 1 && o < n; o++) {
        db[o] = (int32_t)((uint32_t)db[o] * 256);
    }
    for (int32_t r = 0; r < rows; r++) {
        const int32_t by = e[r * groups] + up;
        if (by < 0 || by > MANTISSA_UP) {
            block_bias_far(db, m, at + r * pixels * c, pixels, n, c, -by, bytes);
        }
    }
}

ALWAYS_INLINE void block_bias_grad(int32_t *db, int8_t *de, const void *m, const int8_t *e, int32_t rows,
                                   int32_t pixels, int32_t c, int32_t room, int32_t bytes)
{
    for (int32_t k = 0; k < c; k += BLOCK_GROUP) {
        block_bias_group(db + k, de++, m, e++, k, rows, pixels, block_width(k, c), c, room, bytes);
    }
}

#endif
