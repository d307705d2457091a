/* Numbers of neighbouring pixels side by side, and sums of products over pixels: gradients of weights, on machines that
 * multiply pairs.
 *
 * Rows, one per channel, of numbers, one per pixel, in pairs: a word has those of pixels 2j and 2j+1. Four rows are
 * interleaved word by word: [row / 4][word][row % 4].
 *
 *   turned_beyond      the place of a missing pixel; `nothing` is a pixel of zeros
 *   turned_inputs      four rows of bytes minus zero, of the pixels at these places of x: neighbouring channels
 *   turned_columns     the same of any four channels
 *   turned_gradients   four rows of mantissas times a pixel's factor / 2^14, to the nearest, halves up
 *   turned_sums        sums of products of rows of both
 *   turned_taps        dw[k] += products of row k of bytes, n neighbouring channels, with row k of mantissas
 *
 * `bytes` is the size of a mantissa, a literal; a one-byte mantissa is read as 256 times itself.
 */
#ifndef INSITU_ISA_TURNED_H
#define INSITU_ISA_TURNED_H

#include "isa/machine.h"
#include "numbers/block.h"

enum { TURNED = 4, TURNED_ONE = 14, TURNED_FAR = -1 }; /* TURNED_FAR: a factor of a half */

/* the start of row r: every word of four rows has eight numbers */
static inline int32_t turned_row(int32_t r, int32_t words)
{
    return (r & -TURNED) * 2 * words + (r & (TURNED - 1)) * 2;
}

/* the factor of a number that is scaled down by d bits */
static inline int16_t turned_factor(int32_t d)
{
    return (int16_t)(d <= TURNED_ONE ? 1 << (TURNED_ONE - d) : d == TURNED_ONE + 1 ? TURNED_FAR : 0);
}

/* dw[o,k] of two outputs times `twos`, four columns times `fours`: dw[o,k] = g[o] x[k], or more by that. Assembler
 * depends on this layout. */
typedef struct {
    const int16_t *x, *g;       /* 0, 4: rows; the first output is an even row */
    int32_t *dw, row;           /* 8, 12: bytes from output to output */
    int32_t words, fours, twos; /* 16, 20, 24 */
    int32_t more;               /* 28 */
} turned_task;

/* sums of one column with two outputs */
APART void turned_two(int32_t *dw, int32_t *next, const int16_t *x, const int16_t *g, int32_t words)
{
    uint32_t a = (uint32_t)*dw, b = (uint32_t)*next;
    for (; words > 0; words--, x += 2 * TURNED, g += 2 * TURNED) {
        const int32_t even = x[0], odd = x[1];
        a += (uint32_t)(even * g[0]);
        a += (uint32_t)(odd * g[1]);
        b += (uint32_t)(even * g[2]);
        b += (uint32_t)(odd * g[3]);
    }
    *dw = (int32_t)a;
    *next = (int32_t)b;
}

static inline void scalar_turned_sums(const turned_task *t)
{
    const int32_t row = t->row / (int32_t)sizeof(int32_t);
    for (int32_t o = 0; o < t->twos; o++) {
        int32_t *dw = t->dw + 2 * o * row;
        for (int32_t k = 0; k < TURNED * t->fours; k++, dw++) {
            if (!t->more) {
                dw[0] = dw[row] = 0;
            }
            turned_two(dw, dw + row, t->x + turned_row(k, t->words), t->g + turned_row(2 * o, t->words), t->words);
        }
    }
}

ALWAYS_INLINE int16_t turned_input(const int8_t *x, int32_t place, int32_t zero)
{
    return (int16_t)(place < 0 ? 0 : x[place] - zero);
}

static inline void scalar_turned_columns(int16_t *to, const int8_t *x, const int32_t *place, const int32_t *column,
                                         int32_t zero, int32_t words)
{
    for (int32_t r = 0; r < TURNED; r++, to += 2) {
        const int8_t *from = x + column[r];
        for (int32_t j = 0; j < words; j++) {
            to[2 * TURNED * j] = turned_input(from, place[2 * j], zero);
            to[2 * TURNED * j + 1] = turned_input(from, place[2 * j + 1], zero);
        }
    }
}

static inline void scalar_turned_inputs(int16_t *to, const int8_t *x, const int32_t *place, int32_t zero, int32_t words)
{
    const int32_t column[TURNED] = {0, 1, 2, 3};
    scalar_turned_columns(to, x, place, column, zero, words);
}

/* one channel */
APART int32_t turned_tap(int32_t sum, const int8_t *x, const int32_t *place, const int16_t *g, int32_t zero, int32_t words)
{
    for (; words > 0; words--, place += 2, g += 2 * TURNED) {
        sum += turned_input(x, place[0], zero) * g[0] + turned_input(x, place[1], zero) * g[1];
    }
    return sum;
}

static inline void scalar_turned_taps(int32_t *dw, const int8_t *x, const int32_t *place, const int16_t *g, int32_t zero,
                                      int32_t words, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        dw[k] = turned_tap(dw[k], x + k, place, g + turned_row(k, words), zero, words);
    }
}

ALWAYS_INLINE int32_t turned_number(int32_t v, int32_t factor)
{
    return factor == TURNED_FAR ? block_half_up(v, TURNED_ONE + 1)
                                : (v * factor + (1 << (TURNED_ONE - 1))) >> TURNED_ONE;
}

/* n rows, at most four, of this many pixels, `step` numbers apart; zero after the last of an odd number */
ALWAYS_INLINE void scalar_turned_gradients(int16_t *to, const void *g, int32_t at, int32_t step, const int16_t *factor,
                                           int32_t pixels, int32_t n, int32_t bytes)
{
    for (int32_t r = 0; r < n; r++, at++) {
        int16_t *row = to + 2 * r;
        for (int32_t p = 0; p < pixels; p++) {
            row[p / 2 * 2 * TURNED + p % 2] = (int16_t)turned_number(block_get(g, at + p * step, bytes), factor[p]);
        }
        if (pixels % 2) {
            row[pixels / 2 * 2 * TURNED + 1] = 0;
        }
    }
}

#if INSITU_DSP
#include "isa/dsp/turned.h"
#if INSITU_HELIUM
#include "isa/helium/turned.h"
#endif
#else
#define turned_beyond(x, nothing) ((void)(x), (void)(nothing), -1)
#define turned_inputs scalar_turned_inputs
#define turned_columns scalar_turned_columns
#define turned_gradients(to, g, at, step, factor, far, pixels, n, bytes) \
    ((void)(far), scalar_turned_gradients(to, g, at, step, factor, pixels, n, bytes))
#define turned_sums scalar_turned_sums
#define turned_taps scalar_turned_taps
#endif

#endif
