/* copy.h for Cortex-M: words that may lie anywhere, several at a time. */
#ifndef INSITU_ISA_DSP_COPY_H
#define INSITU_ISA_DSP_COPY_H

#include "isa/dsp/words.h"
#include "isa/inline.h"

/* in words, eight at a time if both are aligned; the last word may overlap the one before it. r0 to, r1 from,
 * r2 n (four at least) */
ASSEMBLED void arm_copy_words(void *to UNUSED, const void *from UNUSED, int32_t n UNUSED)
{
    __asm__ volatile("push {r4-r10}\n"
                     "orr r3, r0, r1\n"
                     "lsls r3, r3, #30\n"
                     "bne 2f\n"
                     "subs r2, r2, #32\n"
                     "blt 1f\n"
                     "0:\n"
                     "ldm r1!, {r3-r10}\n"
                     "stm r0!, {r3-r10}\n"
                     "subs r2, r2, #32\n"
                     "bge 0b\n"
                     "1:\n"
                     "adds r2, r2, #32\n"
                     "beq 6f\n"
                     "2:\n"
                     "subs r2, r2, #16\n"
                     "blt 4f\n"
                     "3:\n"
                     "ldr r3, [r1], #4\n ldr r4, [r1], #4\n ldr r5, [r1], #4\n ldr r12, [r1], #4\n"
                     "str r3, [r0], #4\n str r4, [r0], #4\n str r5, [r0], #4\n str r12, [r0], #4\n"
                     "subs r2, r2, #16\n"
                     "bge 3b\n"
                     "4:\n"
                     "adds r2, r2, #12\n"
                     "blt 7f\n"
                     "5:\n"
                     "ldr r3, [r1], #4\n"
                     "str r3, [r0], #4\n"
                     "subs r2, r2, #4\n"
                     "bge 5b\n"
                     "7:\n"
                     "ldr r3, [r1, r2]\n"
                     "str r3, [r0, r2]\n"
                     "6:\n"
                     "pop {r4-r10}\n"
                     "bx lr\n");
}

static inline void copy_run(void *y, const void *x, int32_t n)
{
    if (n >= 4) {
        arm_copy_words(y, x, n);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        ((char *)y)[i] = ((const char *)x)[i];
    }
}

/* r0 to, r1 from, r2 n (four at least), r3 rows (one at least), step on the stack */
ASSEMBLED void arm_copy_rows(int8_t *to UNUSED, const int8_t *from UNUSED, int32_t n UNUSED, int32_t rows UNUSED,
                             int32_t step UNUSED)
{
    __asm__ volatile("push {r4-r7}\n"
                     "ldr r12, [sp, #16]\n"
                     "1:\n"
                     "mov r4, r1\n"
                     "subs r5, r2, #4\n"
                     "2:\n"
                     "ldr r6, [r4], #4\n"
                     "str r6, [r0], #4\n"
                     "subs r5, r5, #4\n"
                     "bge 2b\n"
                     "ldr r6, [r4, r5]\n"
                     "str r6, [r0, r5]\n"
                     "add r0, r0, r5\n"
                     "add r0, r0, #4\n"
                     "add r1, r1, r12\n"
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "pop {r4-r7}\n"
                     "bx lr\n");
}

static inline void copy_rows(int8_t *to, const int8_t *from, int32_t n, int32_t rows, int32_t step)
{
    if (n >= 4 && rows > 0) {
        arm_copy_rows(to, from, n, rows, step);
        return;
    }
    for (; rows > 0; rows--, to += n, from += step) {
        copy_run(to, from, n);
    }
}

/* r0 to, r1 row, r2 from, r3 step, on the stack how many fours (one at least) */
ASSEMBLED void arm_copy_fours(uint8_t *to UNUSED, int32_t row UNUSED, const uint8_t *from UNUSED, int32_t step UNUSED,
                              int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r8, lr}\n"
                     "ldr r12, [sp, #24]\n"
                     "add r8, r1, r1, lsl #1\n"
                     "add lr, r3, r3, lsl #1\n"
                     "1:\n"
                     "ldrb r4, [r2]\n ldrb r5, [r2, r3]\n ldrb r6, [r2, r3, lsl #1]\n ldrb r7, [r2, lr]\n"
                     "strb r4, [r0]\n strb r5, [r0, r1]\n strb r6, [r0, r1, lsl #1]\n strb r7, [r0, r8]\n"
                     "add r2, r2, r3, lsl #2\n"
                     "add r0, r0, r1, lsl #2\n"
                     "subs r12, r12, #1\n"
                     "bne 1b\n"
                     "pop {r4-r8, pc}\n");
}

static inline void copy_column(uint8_t *to, int32_t row, const uint8_t *from, int32_t step, int32_t n)
{
    const int32_t whole = n & ~3;
    if (whole) {
        arm_copy_fours(to, row, from, step, whole / 4);
    }
    scalar_copy_column(to + whole * row, row, from + whole * step, step, n - whole);
}

#endif
