/* Around fours_f32: operands of bytes as floats, blocks that reach over an edge.
 *
 *   fours_table, fours_floats   rows of four bytes as floats, with a table of them if that helps
 *   fours_scaled                four rows of floats side by side, scaled
 *   fours_rows                  any number of rows, up to four columns
 */
#ifndef INSITU_ISA_FOURS_H
#define INSITU_ISA_FOURS_H

#include <stddef.h>
#include <stdint.h>

#include "isa/machine.h"
#include "kernels.h"

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

/* to[o][r] = x[r row + o] scale[o] for o < n, r < 4 */
static inline void scalar_fours_scaled(float *to, const float *x, int32_t row, const float *scale, int32_t n)
{
    for (int32_t o = 0; o < n; o++, to += FOUR) {
        for (int32_t r = 0; r < FOUR; r++) {
            to[r] = x[r * row + o] * scale[o];
        }
    }
}

#if INSITU_DSP
#include "isa/dsp/fours.h"
#else
#define fours_floats scalar_fours_floats
#endif
#ifndef fours_scaled
#define fours_scaled scalar_fours_scaled
#endif

/* the same for blocks that cross an edge: only `rows` rows and `cols` columns (at most four) exist */
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
        fours_f32(&t);
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
        fours_f32(&t);
    }
    t.a += (ptrdiff_t)whole * FOUR * t.depth;
    t.y = (float *)(void *)((char *)t.y + (ptrdiff_t)whole * FOUR * t.y_row);
    fours_edge(t, rows - whole * FOUR, cols);
}

#endif
