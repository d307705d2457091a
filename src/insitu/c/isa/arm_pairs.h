/* pairs.h for Cortex-M with the DSP extension: SXTAB16 widens, SMLAD multiplies pairs, SMMLA requantises.
 *
 * The block is in assembler: 8 sums, 2 weights, 2 pairs of pixels and 2 pointers are all 14 registers there are, which no
 * compiler holds on to. Everything else the loop needs lies on the stack, in the order of pairs_task.
 */
#ifndef INSITU_ISA_ARM_PAIRS_H
#define INSITU_ISA_ARM_PAIRS_H

#include "isa/arm_dsp.h"

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

__attribute__((naked, noinline)) static void arm_pairs_sums(const pairs_task *t __attribute__((unused)))
{
    __asm__ volatile(PAIRS_ENTER
                     "ldr r1, [sp, #16]\n"
                     "stm r1!, {r4-r11}\n"
                     "str r1, [sp, #16]\n" PAIRS_LEAVE);
}

__attribute__((naked, noinline)) static void arm_pairs_quick(const pairs_task *t __attribute__((unused)))
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

static inline void arm_pairs_widen4(int16_t *to, const int8_t *const *rows, int32_t zero, int32_t k)
{
    const int8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
    const uint32_t add = pair_of(-zero);
    uint32_t *y = (uint32_t *)(void *)to;
    int32_t i = 0;
    for (; i + 4 <= k; i += 4, y += 8) {
        const uint32_t va = word_at(a + i), vb = word_at(b + i), vc = word_at(c + i), vd = word_at(d + i);
        y[0] = widen_even(add, va);
        y[1] = widen_even(add, vb);
        y[2] = widen_even(add, vc);
        y[3] = widen_even(add, vd);
        y[4] = widen_odd(add, va);
        y[5] = widen_odd(add, vb);
        y[6] = widen_odd(add, vc);
        y[7] = widen_odd(add, vd);
    }
    if (i < k) {
        const int8_t *rest[4] = {a + i, b + i, c + i, d + i};
        scalar_pairs_widen4((int16_t *)(void *)y, rest, zero, k - i);
    }
}

static inline void arm_pairs_widen2(int16_t *to, const int8_t *const *rows, int32_t k)
{
    const int8_t *a = rows[0], *b = rows[1];
    uint32_t *y = (uint32_t *)(void *)to;
    int32_t i = 0;
    for (; i + 4 <= k; i += 4, y += 4) {
        const uint32_t va = word_at(a + i), vb = word_at(b + i);
        y[0] = widen_even(0, va);
        y[1] = widen_even(0, vb);
        y[2] = widen_odd(0, va);
        y[3] = widen_odd(0, vb);
    }
    if (i < k) {
        const int8_t *rest[2] = {a + i, b + i};
        scalar_pairs_widen2((int16_t *)(void *)y, rest, k - i);
    }
}
#define pairs_widen4 arm_pairs_widen4
#define pairs_widen2 arm_pairs_widen2

#endif
