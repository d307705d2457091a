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
    "sub sp, sp, #100\n"                                            \
    "mov r12, sp\n"                                                 \
    "ldm r0!, {r1-r8}\n stm r12!, {r1-r8}\n"                        \
    "ldm r0!, {r1-r8}\n stm r12!, {r1-r8}\n"                        \
    "ldm r0!, {r1-r8}\n stm r12!, {r1-r8}\n"                        \
    "ldr r0, [r0]\n"                                                \
    "ldr r2, [sp, #36]\n"                                           \
    "adr.w r1, 2f\n"                                                \
    "add r2, r2, r1\n"                                              \
    "orr r2, r2, #1\n"                                              \
    "str r2, [sp, #36]\n"                                           \
    "1:\n"                                                          \
    "ldm.w sp, {r1, r4-r11, pc}\n"                                  \
    ".p2align 2\n"                                                  \
    "2:\n" PAIRS_FOUR PAIRS_FOUR PAIRS_FOUR PAIRS_FOUR              \
    "ldr r12, [sp, #40]\n"                                          \
    "cmp r1, r12\n"                                                 \
    "bne 2b\n"

#define PAIRS_LEAVE                                                 \
    "ldr r1, [sp, #44]\n"                                           \
    "cmp r0, r1\n"                                                  \
    "bne 1b\n"                                                      \
    "add sp, sp, #100\n"                                            \
    "pop {r4-r11, pc}\n"

/* four pixels of an output, not clamped */
#define PAIRS_SCALE(a, b, c, d)                                     \
    "ldm r1!, {r2, r3, r12}\n"                                      \
    "smmla " a ", " a ", r2, r3\n smmla " b ", " b ", r2, r3\n"     \
    "smmla " c ", " c ", r2, r3\n smmla " d ", " d ", r2, r3\n"     \
    "asr " a ", " a ", r12\n asr " b ", " b ", r12\n"               \
    "asr " c ", " c ", r12\n asr " d ", " d ", r12\n"
#define PAIRS_BYTES(a, b, y) "ssat " a ", #8, " a "\n ssat " b ", #8, " b "\n bfi " a ", " b ", #8, #8\n strh " a ", " y "\n"
/* a pixel: outputs to r1, mask to r3; r4 the bit */
#define PAIRS_BIT(v, y, bit) "ssat lr, #8, " v "\n strb lr, " y "\n cmp lr, " v "\n it eq\n orreq r0, r0, " bit "\n"
#define PAIRS_STEP "strb r0, [r3]\n add r1, r1, r2\n add r3, r3, r12\n"
#define PAIRS_PIXEL(a, b) "ldrb r0, [r3]\n" PAIRS_BIT(a, "[r1]", "r4") PAIRS_BIT(b, "[r1, #1]", "r4, lsl #1") PAIRS_STEP

ASSEMBLED void arm_pairs_sums(const pairs_task *t UNUSED)
{
    __asm__ volatile(PAIRS_ENTER
                     "ldr r1, [sp, #48]\n"
                     "add r2, r1, #256\n" /* PAIRS_SUMS words */
                     "stm r1!, {r4, r6, r8, r10}\n"
                     "stm r2, {r5, r7, r9, r11}\n"
                     "str r1, [sp, #48]\n" PAIRS_LEAVE);
}

ASSEMBLED void arm_pairs_quick(const pairs_task *t UNUSED)
{
    __asm__ volatile(PAIRS_ENTER
                     "add r1, sp, #60\n"
                     PAIRS_SCALE("r4", "r6", "r8", "r10")
                     PAIRS_SCALE("r5", "r7", "r9", "r11")
                     "add r12, sp, #48\n"
                     "ldm r12, {r1-r3}\n"
                     PAIRS_BYTES("r4", "r5", "[r1]") PAIRS_BYTES("r6", "r7", "[r1, r2]")
                     PAIRS_BYTES("r8", "r9", "[r1, r2, lsl #1]") PAIRS_BYTES("r10", "r11", "[r1, r3]")
                     "add r1, r1, r2, lsl #2\n"
                     "str r1, [sp, #48]\n" PAIRS_LEAVE);
}

ASSEMBLED void arm_pairs_masked(const pairs_task *t UNUSED)
{
    __asm__ volatile(PAIRS_ENTER
                     "str r0, [sp, #96]\n"
                     "add r1, sp, #60\n"
                     PAIRS_SCALE("r4", "r6", "r8", "r10")
                     PAIRS_SCALE("r5", "r7", "r9", "r11")
                     "ldrd r3, r12, [sp, #84]\n"
                     "ldrd r1, r2, [sp, #48]\n"
                     "ldrb r0, [r3]\n"
                     "ssat lr, #8, r4\n"
                     "strb lr, [r1]\n"
                     "sub lr, lr, r4\n"
                     "ldr r4, [sp, #92]\n"
                     "cmp lr, #0\n"
                     "it eq\n orreq r0, r0, r4\n" PAIRS_BIT("r5", "[r1, #1]", "r4, lsl #1") PAIRS_STEP
                     PAIRS_PIXEL("r6", "r7") PAIRS_PIXEL("r8", "r9") PAIRS_PIXEL("r10", "r11")
                     "str r1, [sp, #48]\n"
                     "str r3, [sp, #84]\n"
                     "ldr r0, [sp, #96]\n" PAIRS_LEAVE);
}

/* how far into the loop of four groups a row of so many numbers starts */
static inline void arm_pairs_run(void (*run)(const pairs_task *), pairs_task *t)
{
    const uint32_t groups = (uint32_t)(t->w_end - t->w) / 8;
    t->skip = (int32_t)(((0u - groups) & 3u) * PAIRS_FOUR_BYTES);
    if (t->x < t->x_end) {
        run(t);
    }
}
#define pairs_sums(t) arm_pairs_run(arm_pairs_sums, t)
#define pairs_quick(t) arm_pairs_run(arm_pairs_quick, t)
#define pairs_masked(t) arm_pairs_run(arm_pairs_masked, t)

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
#define PAIRS_TWO                                                   \
    "ldr r7, [r1, r2]\n ldr r6, [r1], #4\n"                         \
    "sxtb16 r5, r7\n sxtb16 r4, r6\n"                               \
    "sxtb16 r7, r7, ror #8\n sxtb16 r6, r6, ror #8\n"               \
    "stm r0!, {r4-r7}\n"
ASSEMBLED void arm_pairs_two_rows(int16_t *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED,
                                  int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r7}\n"
                     "lsrs r3, r3, #1\n"
                     "bcc 1f\n" PAIRS_TWO
                     "1:\n"
                     "cbz r3, 3f\n"
                     "2:\n" PAIRS_TWO PAIRS_TWO
                     "subs r3, r3, #1\n"
                     "bne 2b\n"
                     "3:\n"
                     "pop {r4-r7}\n"
                     "bx lr\n");
}

/* What is left of the rows of four windows where that is one number a row, four rows together. Behind the last row lie
 * numbers that are not zero: their weights are. */
static inline void arm_pairs_rest1(int16_t *to, const pairs_window *w, uint32_t add)
{
    const int8_t *x = w->x + (w->n & ~3);
    for (int32_t rows = w->kh; rows > 0; rows -= 4, x += 4 * w->step, to += 16) {
        const int8_t *from = x;
        for (int32_t r = 0; r < 4; r++, from += w->row) {
            uint32_t word = (uint8_t)from[0];
            word |= rows > 1 ? (uint32_t)(uint8_t)from[w->step] << 8 : 0;
            word |= rows > 2 ? (uint32_t)(uint8_t)from[2 * w->step] << 16 : 0;
            word |= rows > 3 ? (uint32_t)(uint8_t)from[3 * w->step] << 24 : 0;
            put_word(to + 2 * r, widen_even(add, word));
            put_word(to + 2 * r + 8, widen_odd(add, word));
        }
    }
}

APART void arm_pairs_window4(int16_t *to, const pairs_window *w, int32_t zero)
{
    const int32_t fours = w->n / 4;
    for (int32_t u = 0; u < w->kh && fours; u++, to += 16 * fours) {
        arm_pairs_four_rows(to, w->x + u * w->step, w->row, pair_of(-zero), fours);
    }
    if ((w->n & 3) == 1) {
        arm_pairs_rest1(to, w, pair_of(-zero));
    } else if (w->n & 3) {
        pairs_rest(to, w, 4, zero);
    }
}

static inline void arm_pairs_window2(int16_t *to, const pairs_window *w)
{
    const int32_t fours = w->n / 4;
    for (int32_t u = 0; u < w->kh && fours; u++, to += 8 * fours) {
        arm_pairs_two_rows(to, w->x + u * w->step, w->row, fours);
    }
    if (w->n & 3) {
        pairs_rest(to, w, 2, 0);
    }
}
#define pairs_few scalar_pairs_few
#define pairs_window4 arm_pairs_window4
#define pairs_window2 arm_pairs_window2

#endif
