/* Rows of 16-bit numbers side by side, and blocks of their products: for machines that multiply pairs.
 *
 * R rows of k numbers each become words of two numbers. A group of four numbers of each row is 2 R words:
 *   x[0],x[2] of row 0, of row 1, ..    x[1],x[3] of row 0, of row 1, ..
 * (the order in which one instruction widens every second byte of a word), with zeros from k to a multiple of four.
 *
 *   pairs_window4, pairs_window2   blocks of four rows, or two, each `step` bytes after the last; a row may be a window
 *   pairs_few                      the same of up to four windows of one row
 *   pairs_sums                     sums of blocks of four pixels and two outputs
 *   pairs_store                    the same; or requantised and stored; or also whether they were not clamped. At least
 *                                  one block; pairs_ready has checked the weights' bounds
 *   pairs_outputs                  pairs_store of outputs two by two, with weights and bias in their layout: as many as
 *                                  a machine's own code handles; returns how many pairs are left
 */
#ifndef INSITU_ISA_PAIRS_H
#define INSITU_ISA_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "isa/inline.h"
#include "isa/machine.h"
#include "isa/quick.h"

enum { PAIRS_PIXELS = 4, PAIRS_OUTPUTS = 2, PAIRS_BLOCK = 8, PAIRS_SUMS = 64 };

/* the results: bytes without a mask or with one, or sums */
enum { PAIRS_PLAIN, PAIRS_MASKED, PAIRS_KEPT };

/* numbers in a row, with the zeros */
static inline int32_t pairs_length(int32_t k)
{
    return (k + 3) / 4 * 4;
}

/* The data of two outputs of some blocks of four pixels. Assembler depends on this layout. */
typedef struct {
    const int16_t *w;           /* 0: two rows of weights */
    int32_t start[PAIRS_BLOCK]; /* 4: [pixel][output] */
    int32_t skip;               /* 36: for a machine's own code, and */
    const int16_t *w_end;       /* 40 */
    int32_t way;                /* 44: too */
    quick_requant q[PAIRS_OUTPUTS]; /* 48 */
    int8_t *y;                  /* 72: the first pixel's; sums: int32_t, the second output's sums PAIRS_SUMS after */
    int32_t y_row, y_3;         /* 76, 80: bytes between two pixels, three times that */
    const int16_t *x_end;       /* 84: of the last block */
    uint8_t *mask;              /* 88: the first pixel's byte with both outputs' bits, which are zero */
    int32_t mask_row, bit;      /* 92, 96: the first output's */
    const int16_t *x;           /* 100: the first block of four rows */
    int32_t zero;               /* of the rows: for machines that widen while they multiply */
} pairs_task;

/* Outputs two by two: the next ones' weights (k numbers each, rows of n), bias and multipliers, and how many
 * pairs are left. Assembler depends on this layout. */
typedef struct {
    const int8_t *w;       /* 0 */
    const int32_t *b, *m;  /* 4, 8 */
    const int8_t *shift;   /* 12 */
    int32_t twice;         /* 16: 2 y_zero + 1 */
    int32_t k, fours;      /* 20, 24: k / 4 */
    int32_t left;          /* 28 */
} pairs_source;

/* to = rows - zero, `count` of them, k numbers each */
static inline void scalar_pairs_widen(int16_t *to, const int8_t *x, int32_t row, int32_t count, int32_t zero, int32_t k)
{
    for (int32_t i = 0; i < k; i += 4) {
        for (int32_t half = i; half < i + 2; half++) {
            for (int32_t r = 0; r < count; r++, to += 2) {
                to[0] = (int16_t)(half < k ? x[r * row + half] - zero : 0);
                to[1] = (int16_t)(half + 2 < k ? x[r * row + half + 2] - zero : 0);
            }
        }
    }
}

/* A window of kh rows of n numbers, `step` bytes from row to row: its address, and the distance to its neighbour. */
typedef struct {
    const int8_t *x;
    int32_t row, step, kh, n;
} pairs_window;

/* the rest of every row of a window after its whole fours */
APART void pairs_rest(int16_t *to, const pairs_window *w, int32_t count, int32_t zero)
{
    const int32_t whole = w->n & ~3;
    const int8_t *x = w->x + whole;
    int32_t i = 0;
    for (int32_t u = 0; u < w->kh; u++, x += w->step) {
        for (int32_t v = 0; v < w->n - whole; v++, i++) {
            int16_t *at = to + ((i >> 2) * 2 + (i & 1)) * 2 * count + (i >> 1 & 1);
            for (int32_t r = 0; r < count; r++) {
                at[2 * r] = (int16_t)(x[r * w->row + v] - zero);
            }
        }
    }
    for (; i & 3; i++) {
        int16_t *at = to + ((i >> 2) * 2 + (i & 1)) * 2 * count + (i >> 1 & 1);
        for (int32_t r = 0; r < count; r++) {
            at[2 * r] = 0;
        }
    }
}

/* to = windows - zero, `count` of them: the whole fours of each row, then the rest of all rows */
static inline void scalar_pairs_window(int16_t *to, const pairs_window *w, int32_t count, int32_t zero)
{
    const int32_t whole = w->n & ~3;
    for (int32_t u = 0; u < w->kh; u++, to += count * whole) {
        scalar_pairs_widen(to, w->x + u * w->step, w->row, count, zero, whole);
    }
    pairs_rest(to, w, count, zero);
}

/* this many times four windows, all side by side */
static inline void scalar_pairs_windows(int16_t *to, pairs_window w, int32_t blocks, int32_t zero)
{
    for (; blocks > 0; blocks--, w.x += PAIRS_PIXELS * w.row, to += PAIRS_PIXELS * pairs_length(w.kh * w.n)) {
        scalar_pairs_window(to, &w, PAIRS_PIXELS, zero);
    }
}

/* four windows, of which `there` exist: the last one is repeated. A window is one row here. */
static inline void scalar_pairs_few(int16_t *to, const pairs_window *w, int32_t there, int32_t zero)
{
    for (int32_t i = 0; i < pairs_length(w->n); i++) {
        const int32_t at = i / 4 * 4 + (i & 1) * 2 + (i >> 1 & 1);
        for (int32_t r = 0; r < PAIRS_PIXELS; r++) {
            const int8_t *x = w->x + (r < there ? r : there - 1) * w->row;
            to[(i / 2 * PAIRS_PIXELS + r) * 2 + (i & 1)] = (int16_t)(at < w->n ? x[at] - zero : 0);
        }
    }
}

/* acc[o] += sum over k of x[k] w[o,k] for one pixel of a block and two outputs */
APART void pairs_pixel(int32_t *acc, const int16_t *x, const int16_t *w, const int16_t *w_end)
{
    uint32_t sum = (uint32_t)acc[0], next = (uint32_t)acc[1];
    for (; w < w_end; w += 2 * PAIRS_OUTPUTS, x += 2 * PAIRS_PIXELS) {
        const int32_t a = x[0], b = x[1];
        sum += (uint32_t)(a * w[0]);
        sum += (uint32_t)(b * w[1]);
        next += (uint32_t)(a * w[2]);
        next += (uint32_t)(b * w[3]);
    }
    acc[0] = (int32_t)sum;
    acc[1] = (int32_t)next;
}

/* acc[p,o] = start[p,o] + sum over k of x[p,k] w[o,k] for one block, pixel by pixel: machines without
 * instructions for pairs have few registers, too */
static inline void scalar_pairs_block(int32_t *acc, const int16_t *x, const pairs_task *t)
{
    for (int32_t p = 0; p < PAIRS_BLOCK; p += PAIRS_OUTPUTS, x += 2) {
        acc[p] = t->start[p];
        acc[p + 1] = t->start[p + 1];
        pairs_pixel(acc + p, x, t->w, t->w_end);
    }
}

static inline void scalar_pairs_sums(const pairs_task *t)
{
    int32_t *sums = (int32_t *)(void *)t->y, acc[PAIRS_BLOCK];
    for (const int16_t *x = t->x; x < t->x_end; x += 2 * (t->w_end - t->w), sums += PAIRS_PIXELS) {
        scalar_pairs_block(acc, x, t);
        for (int32_t i = 0; i < PAIRS_BLOCK; i++) {
            sums[i % PAIRS_OUTPUTS * PAIRS_SUMS + i / PAIRS_OUTPUTS] = acc[i];
        }
    }
}

static inline void scalar_pairs_quick(const pairs_task *t)
{
    int32_t acc[PAIRS_BLOCK];
    int8_t *y = t->y;
    for (const int16_t *x = t->x; x < t->x_end; x += 2 * (t->w_end - t->w), y += PAIRS_PIXELS * t->y_row) {
        scalar_pairs_block(acc, x, t);
        for (int32_t i = 0; i < PAIRS_BLOCK; i++) {
            const int32_t v = quick_value(acc[i], &t->q[i % PAIRS_OUTPUTS]);
            y[i / PAIRS_OUTPUTS * t->y_row + i % PAIRS_OUTPUTS] = (int8_t)value_within(v, -128, 127);
        }
    }
}

static inline void scalar_pairs_masked(const pairs_task *t)
{
    int32_t acc[PAIRS_BLOCK];
    uint8_t *mask = t->mask;
    int8_t *y = t->y;
    for (const int16_t *x = t->x; x < t->x_end; x += 2 * (t->w_end - t->w)) {
        scalar_pairs_block(acc, x, t);
        for (int32_t i = 0; i < PAIRS_BLOCK; i += PAIRS_OUTPUTS, y += t->y_row, mask += t->mask_row) {
            const int32_t v = quick_value(acc[i], &t->q[0]), next = quick_value(acc[i + 1], &t->q[1]);
            y[0] = (int8_t)value_within(v, -128, 127);
            y[1] = (int8_t)value_within(next, -128, 127);
            *mask = (uint8_t)(*mask | (y[0] == v ? t->bit : 0) | (y[1] == next ? 2 * t->bit : 0));
        }
    }
}

static inline void scalar_pairs_store(const pairs_task *t, int32_t way)
{
    if (way == PAIRS_PLAIN) {
        scalar_pairs_quick(t);
    } else if (way == PAIRS_MASKED) {
        scalar_pairs_masked(t);
    } else {
        scalar_pairs_sums(t);
    }
}

#if INSITU_HELIUM
#include "isa/helium/halves.h"
#include "isa/helium/pairs.h"
#elif INSITU_DSP
#include "isa/dsp/pairs.h"
#else
#define pairs_few scalar_pairs_few
#define pairs_window4(to, w, blocks, zero) scalar_pairs_windows(to, *(w), blocks, zero)
#define pairs_window2(to, w) scalar_pairs_window(to, w, 2, 0)
#define pairs_sums scalar_pairs_sums
#define pairs_ready(t) ((void)(t))
#define pairs_store scalar_pairs_store
#define pairs_outputs(t, source, way) ((source)->left)
#endif

#endif
