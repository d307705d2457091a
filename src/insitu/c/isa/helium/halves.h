/* pairs_sums of pairs.h for Helium: eight products of 16-bit numbers per instruction.
 *
 * Rows are stored in words, those of a group side by side, which VLD4 (four pixels) and VLD2 (two outputs) separate
 * again. Both leave the numbers of a row in the same order, which is all that a sum of products needs.
 */
#ifndef INSITU_ISA_HELIUM_HALVES_H
#define INSITU_ISA_HELIUM_HALVES_H

#include "isa/helium/vectors.h"

/* acc[p,o] = start[p,o] + sum over k of x[p,k] w[o,k]; the first group of an odd number of them comes alone */
APART void helium_halves_sums(const pairs_task *t)
{
    const int32_t groups = (int32_t)(t->w_end - t->w) / (4 * PAIRS_OUTPUTS);
    const int32_t *x = (const int32_t *)(const void *)t->x, *end = (const int32_t *)(const void *)t->x_end;
    int32_t *to = (int32_t *)(void *)t->y;
    for (; x < end; to += PAIRS_PIXELS) {
        const int32_t *w = (const int32_t *)(const void *)t->w;
        helium_sums sums;
        UNROLL
        for (int p = 0; p < PAIRS_PIXELS; p++) {
            sums.first[p] = t->start[PAIRS_OUTPUTS * p];
            sums.next[p] = t->start[PAIRS_OUTPUTS * p + 1];
        }
        if (groups & 1) {
            const int32x4x2_t both = vld2q_s32(w);
            const mve_pred16_t p = vctp32q(2);
            helium_add_block(&sums, x, vpselq_s32(both.val[0], vdupq_n_s32(0), p),
                             vpselq_s32(both.val[1], vdupq_n_s32(0), p));
            x += 2 * PAIRS_PIXELS;
            w += 2 * PAIRS_OUTPUTS;
        }
        for (int32_t i = groups >> 1; i > 0; i--, x += 4 * PAIRS_PIXELS, w += 4 * PAIRS_OUTPUTS) {
            const int32x4x2_t both = vld2q_s32(w);
            helium_add_block(&sums, x, both.val[0], both.val[1]);
        }
        UNROLL
        for (int p = 0; p < PAIRS_PIXELS; p++) {
            to[p] = sums.first[p];
            to[p + PAIRS_SUMS] = sums.next[p];
        }
    }
}

static inline void helium_pairs_of_halves(const pairs_task *t)
{
    if (t->w_end - t->w < PAIRS_OUTPUTS * HELIUM_HALVES) { /* less than a vector: bytes beyond the end would be read */
        scalar_pairs_sums(t);
    } else {
        helium_halves_sums(t);
    }
}
#define pairs_sums helium_pairs_of_halves

#endif
