/* Rows of 16-bit numbers side by side, and blocks of products of them: what a machine that multiplies pairs wants.
 *
 * R rows of k numbers each become words of two numbers. A group of four numbers of each row is 2 R words:
 *   x[0],x[2] of row 0, of row 1, ..    x[1],x[3] of row 0, of row 1, ..
 * (the order in which one instruction widens every second byte of a word), with zeros from k to a multiple of four.
 */
#ifndef INSITU_ISA_PAIRS_H
#define INSITU_ISA_PAIRS_H

#include <stddef.h>
#include <stdint.h>

enum { PAIRS_PIXELS = 4, PAIRS_OUTPUTS = 2 };

/* numbers in a row, with the zeros */
static inline int32_t pairs_length(int32_t k)
{
    return (k + 3) / 4 * 4;
}

/* to = rows - zero, `count` of them, k numbers each */
static inline void scalar_pairs_widen(int16_t *to, const int8_t *const *rows, int32_t count, int32_t zero, int32_t k)
{
    for (int32_t i = 0; i < k; i += 4) {
        for (int32_t half = 0; half < 2; half++) {
            for (int32_t r = 0; r < count; r++, to += 2) {
                to[0] = (int16_t)(i + half < k ? rows[r][i + half] - zero : 0);
                to[1] = (int16_t)(i + half + 2 < k ? rows[r][i + half + 2] - zero : 0);
            }
        }
    }
}

/* acc[p,o] = start[o] + sum over k of x[p,k] w[o,k] for 4 pixels and 2 outputs, `length` numbers each */
static inline void scalar_pairs_block(int32_t *acc, const int16_t *x, const int16_t *w, const int32_t *start,
                                      int32_t length)
{
    uint32_t sum[PAIRS_PIXELS * PAIRS_OUTPUTS];
    for (int32_t i = 0; i < PAIRS_PIXELS * PAIRS_OUTPUTS; i++) {
        sum[i] = (uint32_t)start[i % PAIRS_OUTPUTS];
    }
    for (int32_t i = 0; i < length; i += 2, x += 2 * PAIRS_PIXELS, w += 2 * PAIRS_OUTPUTS) {
        for (int32_t p = 0; p < PAIRS_PIXELS; p++) {
            for (int32_t o = 0; o < PAIRS_OUTPUTS; o++) {
                sum[p * PAIRS_OUTPUTS + o] += (uint32_t)(x[2 * p] * w[2 * o] + x[2 * p + 1] * w[2 * o + 1]);
            }
        }
    }
    for (int32_t i = 0; i < PAIRS_PIXELS * PAIRS_OUTPUTS; i++) {
        acc[i] = (int32_t)sum[i];
    }
}

#define pairs_widen scalar_pairs_widen
#define pairs_block scalar_pairs_block

#endif
