/* Blocks of four by four floats, each a chain of fused multiply-adds: the matrix product of the backward pass where
 * there are few registers and no vectors. Operands lie in panels of four: a[k][4], b[k][4].
 *
 *   fours_sums     y[p,j] = (y[p,j] or 0) + sum over k of a[p/4][k][p%4] b[k][j] for `blocks` panels of a, one of b
 *   fours_floats   rows of four bytes as floats, with a table of them where that helps
 */
#ifndef INSITU_ISA_FOURS_H
#define INSITU_ISA_FOURS_H

#include <stddef.h>
#include <stdint.h>

#include "isa/fma.h"

enum { FOUR = 4, FOUR_FLOATS = 16 };

/* Assembler knows how it lies. `y_row` is in bytes; with `go_on` sums start from what y holds. */
typedef struct {
    const float *a, *b;
    float *y;
    int32_t y_row, depth, blocks, go_on;
} fours_task;

static inline void scalar_fours_sums(const fours_task *t)
{
    const float *a = t->a;
    float *y = t->y;
    for (int32_t p = 0; p < FOUR * t->blocks; p++, y = (float *)(void *)((char *)y + t->y_row)) {
        const float *from = a + (ptrdiff_t)(p / FOUR * t->depth) * FOUR + p % FOUR;
        for (int32_t j = 0; j < FOUR; j++) {
            float sum = t->go_on ? y[j] : 0.0f;
            for (int32_t k = 0; k < t->depth; k++) {
                sum = fma_f32(from[k * FOUR], t->b[k * FOUR + j], sum);
            }
            y[j] = sum;
        }
    }
}

/* -128..127 as floats, in case bytes are looked up */
enum { FOUR_TABLE = 256 };

static inline void fours_table(float *table)
{
    for (int32_t i = 0; i < FOUR_TABLE; i++) {
        table[i] = (float)(i - 128);
    }
}

/* to[k][j] = x[k row + j] for k < n */
static inline void scalar_fours_floats(float *to, const int8_t *x, int32_t row, int32_t n, const float *table)
{
    (void)table;
    for (; n > 0; n--, x += row, to += FOUR) {
        for (int32_t j = 0; j < FOUR; j++) {
            to[j] = (float)x[j];
        }
    }
}

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_FMA) && defined(__thumb2__) && !defined(INSITU_SCALAR)
#include "isa/arm_fours.h"
#else
#define fours_sums scalar_fours_sums
#define fours_floats scalar_fours_floats
#endif

/* the same for blocks that reach over an edge: `rows` rows and `cols` columns (at most four) are there */
static inline void fours_edge(fours_task t, int32_t rows, int32_t cols)
{
    float side[FOUR_FLOATS];
    const int32_t row = t.y_row / (int32_t)sizeof(float);
    float *y = t.y;
    t.y = side;
    t.y_row = FOUR * sizeof(float);
    for (t.blocks = 1; rows > 0; rows -= FOUR, y += FOUR * row, t.a += FOUR * t.depth) {
        const int32_t there = rows < FOUR ? rows : FOUR;
        for (int32_t i = 0; t.go_on && i < FOUR_FLOATS; i++) {
            side[i] = i / FOUR < there && i % FOUR < cols ? y[i / FOUR * row + i % FOUR] : 0.0f;
        }
        fours_sums(&t);
        for (int32_t i = 0; i < there * FOUR; i++) {
            if (i % FOUR < cols) {
                y[i / FOUR * row + i % FOUR] = side[i];
            }
        }
    }
}

/* any number of rows, up to four columns */
static inline void fours_rows(fours_task t, int32_t rows, int32_t cols)
{
    const int32_t whole = cols == FOUR ? rows / FOUR : 0;
    t.blocks = whole;
    if (whole) {
        fours_sums(&t);
    }
    t.a += (ptrdiff_t)whole * FOUR * t.depth;
    t.y = (float *)(void *)((char *)t.y + (ptrdiff_t)whole * FOUR * t.y_row);
    fours_edge(t, rows - whole * FOUR, cols);
}

#endif
