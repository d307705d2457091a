/* window_sums.h for Cortex-M with the DSP extension: eight channels in registers. */
#ifndef INSITU_ISA_DSP_WINDOW_SUMS_H
#define INSITU_ISA_DSP_WINDOW_SUMS_H

#include "isa/inline.h"

/* four channels of a tap: weights w0,w2 and w1,w3, mantissas two by two */
#define WINDOW_FOUR(a, b, c, d, w, low, high)                                                                \
    "ldr r3, [r1, #" #w "]\n sxtb16 r12, r3\n sxtb16 r3, r3, ror #8\n"                                       \
    "ldr lr, [r0, #" #low "]\n smlabb " a ", lr, r12, " a "\n smlatb " b ", lr, r3, " b "\n"                 \
    "ldr lr, [r0, #" #high "]\n smlabt " c ", lr, r12, " c "\n smlatt " d ", lr, r3, " d "\n"

/* Eight channels, then the other eight: r0 sums, r1 task. On the stack p, w, rows, cols, p_step, w_step, from the end of
 * a row to the next one of p and w, sums, their end, rows that are left. */
ASSEMBLED void arm_window_16(int32_t *sums UNUSED, const window_task *t UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldm r1, {r2-r9}\n"
                     "mls r8, r5, r6, r8\n"
                     "mls r9, r5, r7, r9\n"
                     "mov r10, r0\n"
                     "add r11, r0, #64\n"
                     "push {r2-r12}\n"
                     "1:\n"
                     "ldrd r0, r1, [sp]\n"
                     "movs r4, #0\n movs r5, #0\n movs r6, #0\n movs r7, #0\n"
                     "mov r8, #0\n mov r9, #0\n mov r10, #0\n mov r11, #0\n"
                     "ldr r3, [sp, #8]\n"
                     "2:\n"
                     "str r3, [sp, #40]\n"
                     "ldr r2, [sp, #12]\n"
                     "3:\n"
                     WINDOW_FOUR("r4", "r5", "r6", "r7", 0, 0, 4) WINDOW_FOUR("r8", "r9", "r10", "r11", 4, 8, 12)
                     "ldrd r3, r12, [sp, #16]\n"
                     "add r0, r0, r3\n"
                     "add r1, r1, r12\n"
                     "subs r2, r2, #1\n"
                     "bne 3b\n"
                     "ldrd r3, r12, [sp, #24]\n"
                     "add r0, r0, r3\n"
                     "add r1, r1, r12\n"
                     "ldr r3, [sp, #40]\n"
                     "subs r3, r3, #1\n"
                     "bne 2b\n"
                     "ldrd r3, r12, [sp, #32]\n"
                     "ldrd r0, r1, [sp]\n"
                     "stm r3!, {r4-r11}\n"
                     "adds r0, #16\n"
                     "adds r1, #8\n"
                     "strd r0, r1, [sp]\n"
                     "str r3, [sp, #32]\n"
                     "cmp r3, r12\n"
                     "bne 1b\n"
                     "add sp, sp, #44\n"
                     "pop {r4-r11, pc}\n");
}

ALWAYS_INLINE void arm_window_sums(int32_t *sums, const window_task *t, int32_t n)
{
    if (n < BLOCK_GROUP || !t->rows || !t->cols) {
        scalar_window_sums(sums, t, n);
    } else {
        arm_window_16(sums, t);
    }
}
#define window_sums arm_window_sums

#endif
