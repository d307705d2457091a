/* pairs_columns of columns.h for Cortex-M with the DSP extension: sixteen numbers at a time. */
#ifndef INSITU_ISA_DSP_COLUMNS_H
#define INSITU_ISA_DSP_COLUMNS_H

#include "isa/dsp/words.h"
#include "isa/inline.h"

/* two rows of two columns each, as words of two outputs and, r1 bytes on, of the other two */
#define COLUMNS_TWO(turn)                                                                        \
    "sxtab16 r10, r4, r6" turn "\n sxtab16 r11, r4, r8" turn "\n"                                \
    "pkhbt r12, r10, r11, lsl #16\n pkhtb lr, r11, r10, asr #16\n"                               \
    "str lr, [r0, r1]\n str r12, [r0], #4\n"
#define COLUMNS_NEXT(turn)                                                                       \
    "sxtab16 r10, r4, r7" turn "\n sxtab16 r11, r4, r9" turn "\n"                                \
    "pkhbt r12, r10, r11, lsl #16\n pkhtb lr, r11, r10, asr #16\n"                               \
    "str lr, [r0, r1]\n str r12, [r0], #4\n"

/* Four bytes of each of four rows are sixteen numbers: every second byte is widened at once, then the columns of two
 * rows are put together. r0 to, r1 bytes to the other two columns, r2 x, r3 row; on the stack what is added, fours. */
ASSEMBLED void arm_columns_fours(int16_t *to UNUSED, int32_t other UNUSED, const int8_t *x UNUSED, int32_t row UNUSED,
                                 uint32_t add UNUSED, int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldrd r4, r5, [sp, #36]\n"
                     "1:\n"
                     "ldr r6, [r2]\n ldr r7, [r2, r3]\n add r2, r2, r3, lsl #1\n"
                     "ldr r8, [r2]\n ldr r9, [r2, r3]\n add r2, r2, r3, lsl #1\n"
                     COLUMNS_TWO("") COLUMNS_TWO(", ror #8") COLUMNS_NEXT("") COLUMNS_NEXT(", ror #8")
                     "subs r5, r5, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

/* the rest of n takes the slow way */
static inline void arm_pairs_columns(int16_t *to, const int8_t *x, int32_t row, int32_t cols, int32_t zero, int32_t n)
{
    if (cols < PAIRS_COLUMNS || n % 4) {
        scalar_pairs_columns(to, x, row, cols, zero, n);
    } else {
        arm_columns_fours(to, 4 * n, x, row, pair_of(-zero), n / 4);
    }
}
#define pairs_columns arm_pairs_columns

#endif
