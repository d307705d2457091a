/* What the Helium twins share: four outputs as a vector, and blocks of sums. Cortex-M55, integer vectors only: its
 * float vectors flush subnormal numbers to zero, and gradients would not have the same bytes as elsewhere.
 */
#ifndef INSITU_ISA_HELIUM_VECTORS_H
#define INSITU_ISA_HELIUM_VECTORS_H

#include <arm_mve.h>

#include "isa/inline.h"
#include "isa/machine.h"

enum { HELIUM_WORDS = 4, HELIUM_HALVES = 8, HELIUM_BYTES = 16 };

/* 0, step, 2 step, 3 step */
ALWAYS_INLINE uint32x4_t helium_steps(int32_t step)
{
    return vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)step);
}

ALWAYS_INLINE int32x4_t helium_within(int32x4_t v)
{
    return vminq_s32(vmaxq_s32(v, vdupq_n_s32(-128)), vdupq_n_s32(127));
}

ALWAYS_INLINE int32_t helium_add_halves(int32_t sum, int32x4_t x, int32x4_t w)
{
    return vmladavaq_s16(sum, vreinterpretq_s16_s32(x), vreinterpretq_s16_s32(w));
}

/* sums of four rows with two others */
typedef struct {
    int32_t first[HELIUM_WORDS], next[HELIUM_WORDS];
} helium_sums;

/* sums + products of eight 16-bit numbers of each row: those of the four lie in words side by side, which VLD4 takes
 * apart */
ALWAYS_INLINE void helium_add_block(helium_sums *sums, const int32_t *x, int32x4_t first, int32x4_t next)
{
#if !INSITU_CLANG
    KEEP(x); /* gcc would advance it by a register in the same instruction, which VLD4 cannot do */
#endif
    const int32x4x4_t rows = vld4q_s32(x);
    UNROLL
    for (int p = 0; p < HELIUM_WORDS; p++) {
        sums->first[p] = helium_add_halves(sums->first[p], rows.val[p], first);
        sums->next[p] = helium_add_halves(sums->next[p], rows.val[p], next);
    }
}

#endif
