/* pairs.h for Cortex-M with the DSP extension: SXTAB16 widens, SMLAD multiplies pairs, SMMLA requantises.
 *
 * The block is in assembler: 8 sums, 2 weights, 2 pairs of pixels and 2 pointers are all 14 registers there are, which no
 * compiler holds on to. Everything else the loop needs lies on the stack, in the order of pairs_task.
 */
#ifndef INSITU_ISA_ARM_PAIRS_H
#define INSITU_ISA_ARM_PAIRS_H

#include "isa/arm_dsp.h"
#include "isa/inline.h"

/* two words of each row are one group of four numbers: 22 instructions of 4 bytes, 32 products */
#define PAIRS_HALF                                                  \
    "ldrd r2, r3, [r1], #8\n"                                       \
    "ldrd r12, lr, [r0], #8\n"                                      \
    "smlad r4, r12, r2, r4\n smlad r5, r12, r3, r5\n"               \
    "smlad r6, lr, r2, r6\n smlad r7, lr, r3, r7\n"                 \
    "ldrd r12, lr, [r0], #8\n"                                      \
    "smlad r8, r12, r2, r8\n smlad r9, r12, r3, r9\n"               \
    "smlad r10, lr, r2, r10\n smlad r11, lr, r3, r11\n"
#define PAIRS_FOUR PAIRS_HALF PAIRS_HALF
enum { PAIRS_FOUR_BYTES = 88 };

/* the task goes to the stack; a row that is no multiple of sixteen starts further down in the loop */
#define PAIRS_ENTER                                                 \
    "push {r4-r11, lr}\n"                                           \
    "sub sp, sp, #84\n"                                             \
    "mov r12, sp\n"                                                 \
    "ldm r0!, {r1-r10}\n stm r12!, {r1-r10}\n"                      \
    "ldm r0!, {r1-r10}\n stm r12!, {r1-r10}\n"                      \
    "ldr r0, [r0]\n"                                                \
    "ldr r2, [sp, #0]\n"                                            \
    "adr.w r1, 2f\n"                                                \
    "add r2, r2, r1\n"                                              \
    "orr r2, r2, #1\n"                                              \
    "str r2, [sp, #0]\n"                                            \
    "1:\n"                                                          \
    "add r2, sp, #48\n"                                             \
    "ldm r2, {r4-r11}\n"                                            \
    "ldr r1, [sp, #4]\n"                                            \
    "ldr pc, [sp, #0]\n"                                            \
    ".p2align 2\n"                                                  \
    "2:\n" PAIRS_FOUR PAIRS_FOUR PAIRS_FOUR PAIRS_FOUR              \
    "ldr r12, [sp, #8]\n"                                           \
    "cmp r1, r12\n"                                                 \
    "bne 2b\n"

#define PAIRS_LEAVE                                                 \
    "ldr r1, [sp, #12]\n"                                           \
    "cmp r0, r1\n"                                                  \
    "bne 1b\n"                                                      \
    "add sp, sp, #84\n"                                             \
    "pop {r4-r11, pc}\n"

#define PAIRS_REQUANT(a, b, c, d)                                   \
    "ldm r1!, {r2, r3, r12}\n"                                      \
    "smmla " a ", " a ", r2, r3\n smmla " b ", " b ", r2, r3\n"     \
    "smmla " c ", " c ", r2, r3\n smmla " d ", " d ", r2, r3\n"     \
    "asr " a ", " a ", r12\n asr " b ", " b ", r12\n"               \
    "asr " c ", " c ", r12\n asr " d ", " d ", r12\n"               \
    "ssat " a ", #8, " a "\n ssat " b ", #8, " b "\n"               \
    "ssat " c ", #8, " c "\n ssat " d ", #8, " d "\n"

ASSEMBLED void arm_pairs_sums(const pairs_task *t UNUSED)
{
    __asm__ volatile(PAIRS_ENTER
                     "ldr r1, [sp, #16]\n"
                     "add r2, r1, #256\n" /* PAIRS_SUMS words */
                     "stm r1!, {r4, r6, r8, r10}\n"
                     "stm r2, {r5, r7, r9, r11}\n"
                     "str r1, [sp, #16]\n" PAIRS_LEAVE);
}

ASSEMBLED void arm_pairs_quick(const pairs_task *t UNUSED)
{
    __asm__ volatile(PAIRS_ENTER
                     "add r1, sp, #24\n"
                     PAIRS_REQUANT("r4", "r6", "r8", "r10")
                     PAIRS_REQUANT("r5", "r7", "r9", "r11")
                     "ldrd lr, r2, [sp, #16]\n"
                     "add r3, lr, #1\n"
                     "add r12, r2, r2, lsl #1\n"
                     "strb r4, [lr]\n strb r5, [r3]\n"
                     "strb r6, [lr, r2]\n strb r7, [r3, r2]\n"
                     "strb r8, [lr, r2, lsl #1]\n strb r9, [r3, r2, lsl #1]\n"
                     "strb r10, [lr, r12]\n strb r11, [r3, r12]\n"
                     "add lr, lr, r2, lsl #2\n"
                     "str lr, [sp, #16]\n" PAIRS_LEAVE);
}

/* how far into the loop of four groups a row of so many numbers starts */
static inline void arm_pairs_run(void (*run)(const pairs_task *), pairs_task *t)
{
    const int32_t groups = (int32_t)(t->w_end - t->w) / 8;
    t->skip = (-groups & 3) * PAIRS_FOUR_BYTES;
    if (t->x < t->x_end) {
        run(t);
    }
}
#define pairs_sums(t) arm_pairs_run(arm_pairs_sums, t)
#define pairs_quick(t) arm_pairs_run(arm_pairs_quick, t)

/* r0 to, r1 x, r2 row, r3 what is added to both numbers of a pair, on the stack how many fours of numbers */
ASSEMBLED void arm_pairs_four_rows(int16_t *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED,
                                   uint32_t add UNUSED, int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldr r12, [sp, #36]\n"
                     "add lr, r2, r2, lsl #1\n"
                     "1:\n"
                     "ldr r5, [r1, r2]\n ldr r6, [r1, r2, lsl #1]\n ldr r7, [r1, lr]\n ldr r4, [r1], #4\n"
                     "sxtab16 r8, r3, r4\n sxtab16 r9, r3, r5\n sxtab16 r10, r3, r6\n sxtab16 r11, r3, r7\n"
                     "sxtab16 r4, r3, r4, ror #8\n sxtab16 r5, r3, r5, ror #8\n"
                     "sxtab16 r6, r3, r6, ror #8\n sxtab16 r7, r3, r7, ror #8\n"
                     "stm r0!, {r8-r11}\n"
                     "stm r0!, {r4-r7}\n"
                     "subs r12, r12, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

/* r0 to, r1 x, r2 row, r3 how many fours of numbers */
ASSEMBLED void arm_pairs_two_rows(int16_t *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED,
                                  int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r7}\n"
                     "1:\n"
                     "ldr r7, [r1, r2]\n ldr r6, [r1], #4\n"
                     "sxtb16 r5, r7\n sxtb16 r4, r6\n"
                     "sxtb16 r7, r7, ror #8\n sxtb16 r6, r6, ror #8\n"
                     "stm r0!, {r4-r7}\n"
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "pop {r4-r7}\n"
                     "bx lr\n");
}

static inline void arm_pairs_widen4(int16_t *to, const int8_t *x, int32_t row, int32_t zero, int32_t k)
{
    const int32_t whole = k & ~3;
    if (whole) {
        arm_pairs_four_rows(to, x, row, pair_of(-zero), whole / 4);
    }
    scalar_pairs_widen(to + 4 * whole, x + whole, row, 4, zero, k - whole);
}

static inline void arm_pairs_widen2(int16_t *to, const int8_t *x, int32_t row, int32_t k)
{
    const int32_t whole = k & ~3;
    if (whole) {
        arm_pairs_two_rows(to, x, row, whole / 4);
    }
    scalar_pairs_widen(to + 2 * whole, x + whole, row, 2, 0, k - whole);
}
#define pairs_widen4 arm_pairs_widen4
#define pairs_widen2 arm_pairs_widen2

#endif
