/* What a group of channels of one pixel gathers from a rectangle of others:
 *   sums[k] = sum over i < rows, j < cols of p[i,j,k] w[i,j,k] for k < BLOCK_GROUP
 * p[i,j] starts i p_row + j p_step bytes from p, w[i,j] i w_row + j w_step from w. Integers: any order gives the
 * same bytes.
 */
#ifndef INSITU_ISA_WINDOW_SUMS_H
#define INSITU_ISA_WINDOW_SUMS_H

#include "isa/machine.h"
#include "numbers/block.h"

/* Assembler depends on this layout. */
typedef struct {
    const int16_t *p;
    const int8_t *w;
    int32_t rows, cols, p_step, w_step, p_row, w_row;
} window_task;

/* of n channels */
ALWAYS_INLINE void scalar_window_sums(int32_t *sums, const window_task *t, int32_t n)
{
    int32_t all[BLOCK_GROUP] = {0}; /* nothing else can alias it: sums of a whole group stay in vectors */
    const int8_t *p_row = (const int8_t *)t->p, *w_row = t->w;
    for (int32_t i = 0; i < t->rows; i++, p_row += t->p_row, w_row += t->w_row) {
        const int8_t *p = p_row, *w = w_row;
        for (int32_t j = 0; j < t->cols; j++, p += t->p_step, w += t->w_step) {
            const int16_t *left = (const int16_t *)(const void *)p;
            for (int32_t k = 0; k < n; k++) {
                all[k] += left[k] * w[k];
            }
        }
    }
    for (int32_t k = 0; k < n; k++) {
        sums[k] = all[k];
    }
}

#if INSITU_HELIUM
#include "isa/helium/window_sums.h"
#elif INSITU_DSP
#include "isa/dsp/window_sums.h"
#else
#define window_sums scalar_window_sums
#endif

#endif
