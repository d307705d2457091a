/* pairs_column of columns.h for Cortex-M with the DSP extension: four numbers at a time. */
#ifndef INSITU_ISA_DSP_COLUMN_H
#define INSITU_ISA_DSP_COLUMN_H

#include "isa/dsp/words.h"
#include "isa/inline.h"

/* r0 to, r1 x, r2 row, r3 what is added to both numbers of a pair; on the stack how many fours of numbers */
ASSEMBLED void arm_column_fours(int16_t *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED, uint32_t add UNUSED,
                                int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r7, lr}\n"
                     "ldr r12, [sp, #20]\n"
                     "add lr, r2, r2, lsl #1\n"
                     "1:\n"
                     "ldrb r4, [r1]\n ldrb r5, [r1, r2]\n ldrb r6, [r1, r2, lsl #1]\n ldrb r7, [r1, lr]\n"
                     "add r1, r1, r2, lsl #2\n"
                     "pkhbt r4, r4, r6, lsl #16\n pkhbt r5, r5, r7, lsl #16\n"
                     "sxtab16 r4, r3, r4\n sxtab16 r5, r3, r5\n"
                     "str r4, [r0], #8\n str r5, [r0], #8\n"
                     "subs r12, r12, #1\n"
                     "bne 1b\n"
                     "pop {r4-r7, pc}\n");
}

/* the rest of n takes the slow way */
APART void arm_pairs_column(int16_t *to, int32_t r, const int8_t *x, int32_t row, int32_t zero, int32_t n)
{
    const int32_t whole = n & ~3;
    if (whole) {
        arm_column_fours(to + 2 * r, x, row, pair_of(-zero), whole / 4);
    }
    if (n - whole) {
        scalar_pairs_column(to + PAIRS_OUTPUTS * whole, r, x + whole * row, row, zero, n - whole);
    }
}
#define pairs_column arm_pairs_column

#endif
