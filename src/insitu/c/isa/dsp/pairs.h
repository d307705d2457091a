/* pairs.h for Cortex-M with the DSP extension: SXTAB16 widens, SMLAD multiplies pairs, SMMLA requantises.
 *
 * The block is in assembler: 8 sums, 2 weights, 2 pairs of pixels and 2 pointers use all 14 registers, which no
 * compiler manages. Everything else that the loop needs is on the stack, in the order of pairs_task.
 */
#ifndef INSITU_ISA_DSP_PAIRS_H
#define INSITU_ISA_DSP_PAIRS_H

#include "isa/dsp/words.h"
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
#define PAIRS_FOURS PAIRS_FOUR PAIRS_FOUR PAIRS_FOUR PAIRS_FOUR
enum { PAIRS_FOUR_BYTES = 88 };

/* two rows of numbers: r0 to, r1 x, r2 bytes from row to row, r3 how many fours */
#define PAIRS_TWO                                                   \
    "ldr r7, [r1, r2]\n ldr r6, [r1], #4\n"                         \
    "sxtb16 r5, r7\n sxtb16 r4, r6\n"                               \
    "sxtb16 r7, r7, ror #8\n sxtb16 r6, r6, ror #8\n"               \
    "stm r0!, {r4-r7}\n"
#define PAIRS_TWO_ROWS                                              \
    "lsrs r3, r3, #1\n"                                             \
    "bcc 11f\n" PAIRS_TWO                                           \
    "11:\n"                                                         \
    "cbz r3, 13f\n"                                                 \
    "12:\n" PAIRS_TWO PAIRS_TWO                                     \
    "subs r3, r3, #1\n"                                             \
    "bne 12b\n"                                                     \
    "13:\n"
ASSEMBLED void arm_pairs_two_rows(int16_t *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED,
                                  int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r7}\n" PAIRS_TWO_ROWS
                     "pop {r4-r7}\n"
                     "bx lr\n");
}

/* the task goes to the stack, x with it */
#define PAIRS_ENTER(bytes)                                          \
    "push {r4-r11, lr}\n"                                           \
    "sub sp, sp, #" bytes "\n"                                      \
    "mov r11, r1\n"                                                 \
    "mov lr, r2\n"                                                  \
    "mov r12, sp\n"                                                 \
    "ldm r0!, {r1-r8}\n stm r12!, {r1-r8}\n"                        \
    "ldm r0!, {r1-r8}\n stm r12!, {r1-r8}\n"                        \
    "ldm r0, {r1-r10}\n stm r12!, {r1-r10}\n"
/* a row that is not a multiple of all groups of the loop at 2 starts further down in it */
#define PAIRS_SKIP                                                  \
    "ldr r2, [sp, #36]\n"                                           \
    "adr.w r1, 2f\n"                                                \
    "add r2, r2, r1\n"                                              \
    "orr r2, r2, #1\n"                                              \
    "str r2, [sp, #36]\n"
#define PAIRS_BEGIN                                                 \
    "ldr r0, [sp, #100]\n"                                          \
    "1:\n"                                                          \
    "ldm.w sp, {r1, r4-r11, pc}\n"                                  \
    ".p2align 2\n"
#define PAIRS_LEAVE(bytes)                                          \
    "add sp, sp, #" bytes "\n"                                      \
    "pop {r4-r11, pc}\n"

/* four pixels of an output, not clamped */
#define PAIRS_SCALE(a, b, c, d)                                     \
    "ldm r1!, {r2, r3, r12}\n"                                      \
    "smmla " a ", " a ", r2, r3\n smmla " b ", " b ", r2, r3\n"     \
    "smmla " c ", " c ", r2, r3\n smmla " d ", " d ", r2, r3\n"     \
    "asr " a ", " a ", r12\n asr " b ", " b ", r12\n"               \
    "asr " c ", " c ", r12\n asr " d ", " d ", r12\n"
#define PAIRS_SCALED "add r1, sp, #48\n" PAIRS_SCALE("r4", "r6", "r8", "r10") PAIRS_SCALE("r5", "r7", "r9", "r11")
#define PAIRS_BYTES(a, b, y) "ssat " a ", #8, " a "\n ssat " b ", #8, " b "\n bfi " a ", " b ", #8, #8\n strh " a ", " y "\n"
/* a pixel: outputs to r1, mask to r3; r4 the bit */
#define PAIRS_BIT(v, y, bit) "ssat lr, #8, " v "\n strb lr, " y "\n cmp lr, " v "\n it eq\n orreq r0, r0, " bit "\n"
#define PAIRS_STEP "strb r0, [r3]\n add r1, r1, r2\n add r3, r3, r12\n"
#define PAIRS_PIXEL(a, b) "ldrb r0, [r3]\n" PAIRS_BIT(a, "[r1]", "r4") PAIRS_BIT(b, "[r1, #1]", "r4, lsl #1") PAIRS_STEP
#define PAIRS_TO_SUMS                                               \
    "ldr r1, [sp, #72]\n"                                           \
    "add r2, r1, #256\n" /* PAIRS_SUMS words */                     \
    "stm r1!, {r4, r6, r8, r10}\n"                                  \
    "stm r2, {r5, r7, r9, r11}\n"                                   \
    "str r1, [sp, #72]\n"                                           \
    "ldr r1, [sp, #84]\n"                                           \
    "cmp r0, r1\n"                                                  \
    "bne 1b\n"

/* only sums, for kernels that need nothing else */
ASSEMBLED void arm_pairs_sums(const pairs_task *t UNUSED)
{
    __asm__ volatile(PAIRS_ENTER("104") PAIRS_SKIP PAIRS_BEGIN
                     "2:\n" PAIRS_FOURS
                     "ldr r12, [sp, #40]\n"
                     "cmp r1, r12\n"
                     "bne 2b\n" PAIRS_TO_SUMS PAIRS_LEAVE("104"));
}

/* The next two outputs: their weights, how they are requantised, where their sums start; unless one has no quick way.
 * The source is at 104, then the first pixel's y and mask. */
#define PAIRS_NEXT                                                  \
    "ldr r0, [sp]\n"                                                \
    "ldr r1, [sp, #104]\n"                                          \
    "ldrd r2, r3, [sp, #124]\n" PAIRS_TWO_ROWS                      \
    "add r1, r1, r2\n"                                              \
    "str r1, [sp, #104]\n"                                          \
    "ldrd r8, r9, [sp, #108]\n"                                     \
    "ldrd r10, r11, [sp, #116]\n"                                   \
    "ldrsb r4, [r10], #1\n ldrsb r7, [r10], #1\n"                   \
    "mvn r4, r4\n mvn r7, r7\n"                                     \
    "sub r0, r4, #1\n sub r1, r7, #1\n"                             \
    "cmp r0, #21\n it ls\n cmpls r1, #21\n"                         \
    "bhi 8f\n"                                                      \
    "ldr r2, [r9], #4\n ldr r5, [r9], #4\n"                         \
    "lsl r3, r11, r0\n lsl r6, r11, r1\n"                           \
    "add r0, sp, #48\n"                                             \
    "stm r0, {r2-r7}\n"                                             \
    "ldr r4, [r8], #4\n ldr r5, [r8], #4\n"                         \
    "strd r8, r9, [sp, #108]\n"                                     \
    "str r10, [sp, #116]\n"                                         \
    "mov r6, r4\n mov r7, r5\n"                                     \
    "add r0, sp, #4\n"                                              \
    "stm r0!, {r4-r7}\n stm r0!, {r4-r7}\n"

/* The code for the sums of a block follows the loop: plain bytes at 4, with a mask at 5, sums at 6. Without a source
 * (null) the task's two outputs. Returns how many pairs are left: the next one has no quick way. */
ASSEMBLED int32_t arm_pairs_store(const pairs_task *t UNUSED, int32_t way UNUSED, const pairs_source *source UNUSED)
{
    __asm__ volatile(PAIRS_ENTER("148")
                     "adr.w r1, 4f\n"
                     "cmp r11, #1\n"
                     "blt 3f\n"
                     "adr.w r1, 5f\n"
                     "beq 3f\n"
                     "adr.w r1, 6f\n"
                     "3:\n"
                     "orr r1, r1, #1\n"
                     "str r1, [sp, #44]\n" PAIRS_SKIP
                     "str lr, [sp, #132]\n"
                     "cmp lr, #0\n"
                     "beq 10f\n"
                     "ldm lr, {r1-r8}\n stm r12!, {r1-r8}\n"
                     "ldr r1, [sp, #72]\n ldr r2, [sp, #88]\n"
                     "stm r12, {r1, r2}\n"
                     "9:\n" PAIRS_NEXT
                     "10:\n" PAIRS_BEGIN
                     "2:\n" PAIRS_FOURS PAIRS_FOURS
                     "ldrd r12, lr, [sp, #40]\n"
                     "cmp r1, r12\n"
                     "bne 2b\n"
                     "bx lr\n"
                     ".p2align 2\n"
                     "6:\n" PAIRS_TO_SUMS
                     "b 8f\n"
                     ".p2align 2\n"
                     "5:\n"
                     "str r0, [sp, #144]\n" PAIRS_SCALED
                     "ldrd r3, r12, [sp, #88]\n"
                     "ldrd r1, r2, [sp, #72]\n"
                     "ldrb r0, [r3]\n"
                     "ssat lr, #8, r4\n"
                     "strb lr, [r1]\n"
                     "sub lr, lr, r4\n"
                     "ldr r4, [sp, #96]\n"
                     "cmp lr, #0\n"
                     "it eq\n orreq r0, r0, r4\n" PAIRS_BIT("r5", "[r1, #1]", "r4, lsl #1") PAIRS_STEP
                     PAIRS_PIXEL("r6", "r7") PAIRS_PIXEL("r8", "r9") PAIRS_PIXEL("r10", "r11")
                     "str r1, [sp, #72]\n"
                     "str r3, [sp, #88]\n"
                     "ldr r0, [sp, #144]\n"
                     "ldr r1, [sp, #84]\n"
                     "cmp r0, r1\n"
                     "bne 1b\n"
                     "ldr r2, [sp, #96]\n"
                     "ldr r3, [sp, #140]\n"
                     "lsl r2, r2, #2\n"
                     "cmp r2, #256\n"
                     "itt eq\n moveq r2, #1\n addeq r3, r3, #1\n"
                     "str r2, [sp, #96]\n"
                     "str r3, [sp, #140]\n"
                     "str r3, [sp, #88]\n"
                     "b 7f\n"
                     ".p2align 2\n"
                     "4:\n" PAIRS_SCALED
                     "ldm r1, {r2, r3, r12, lr}\n" /* y, y_row, y_3, x_end */
                     PAIRS_BYTES("r4", "r5", "[r2]") PAIRS_BYTES("r6", "r7", "[r2, r3]")
                     PAIRS_BYTES("r8", "r9", "[r2, r3, lsl #1]") PAIRS_BYTES("r10", "r11", "[r2, r12]")
                     "add r2, r2, r3, lsl #2\n"
                     "str r2, [r1]\n"
                     "cmp r0, lr\n"
                     "bne 1b\n"
                     "7:\n"
                     "ldrd r1, r2, [sp, #132]\n"
                     "add r2, r2, #2\n"
                     "subs r1, r1, #1\n"
                     "strd r1, r2, [sp, #132]\n"
                     "str r2, [sp, #72]\n"
                     "bgt 9b\n"
                     "8:\n"
                     "ldr r0, [sp, #132]\n" PAIRS_LEAVE("148"));
}

/* how far into a loop of this many groups (a power of two) a row starts */
static inline int32_t arm_pairs_skip(const pairs_task *t, uint32_t loop)
{
    const uint32_t groups = (uint32_t)(t->w_end - t->w) / 8;
    return (int32_t)(((0u - groups) & (loop - 1)) * PAIRS_FOUR_BYTES);
}

static inline void arm_pairs_sums_of(pairs_task *t)
{
    t->skip = arm_pairs_skip(t, 4);
    if (t->x < t->x_end) {
        arm_pairs_sums(t);
    }
}

#define pairs_sums arm_pairs_sums_of
#define pairs_ready(t) ((t)->skip = arm_pairs_skip(t, 8))
#define pairs_store(t, way) arm_pairs_store(t, way, NULL)

static inline int32_t arm_pairs_outputs(const pairs_task *t, const pairs_source *source, int32_t way)
{
    return source->fours && source->left ? arm_pairs_store(t, way, source) : source->left;
}
#define pairs_outputs arm_pairs_outputs

/* Rows of numbers of four rows each: r0 to, r1 x, r2 bytes from row to row, r3 what is added to both numbers of a pair;
 * on the stack how many fours of numbers, how many times, and bytes from their end to the next time */
ASSEMBLED void arm_pairs_four_rows(int16_t *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED, uint32_t add UNUSED,
                                   int32_t fours UNUSED, int32_t times UNUSED, int32_t next UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "add lr, r2, r2, lsl #1\n"
                     "1:\n"
                     "ldr r12, [sp, #36]\n"
                     "2:\n"
                     "ldr r5, [r1, r2]\n ldr r6, [r1, r2, lsl #1]\n ldr r7, [r1, lr]\n ldr r4, [r1], #4\n"
                     "sxtab16 r8, r3, r4\n sxtab16 r9, r3, r5\n sxtab16 r10, r3, r6\n sxtab16 r11, r3, r7\n"
                     "sxtab16 r4, r3, r4, ror #8\n sxtab16 r5, r3, r5, ror #8\n"
                     "sxtab16 r6, r3, r6, ror #8\n sxtab16 r7, r3, r7, ror #8\n"
                     "stm r0!, {r8-r11}\n"
                     "stm r0!, {r4-r7}\n"
                     "subs r12, r12, #1\n"
                     "bne 2b\n"
                     "ldrd r4, r5, [sp, #40]\n"
                     "add r1, r1, r5\n"
                     "subs r4, r4, #1\n"
                     "str r4, [sp, #40]\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

/* Four numbers, bytes apart, of each of some rows: r0 to, r1 x, r2 bytes from row to row, r3 what is added; on the stack
 * where the other three lie, which of the four are kept, and how many rows */
ASSEMBLED void arm_pairs_gather(int16_t *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED, uint32_t add UNUSED,
                                int32_t one UNUSED, int32_t two UNUSED, int32_t three UNUSED, uint32_t kept UNUSED,
                                int32_t count UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "add r12, sp, #36\n"
                     "ldm r12, {r4-r8}\n"
                     "lsl lr, r8, #2\n"
                     "1:\n"
                     "ldrb r9, [r1, r4]\n ldrb r10, [r1, r5]\n ldrb r11, [r1, r6]\n ldrb r12, [r1]\n"
                     "orr r9, r12, r9, lsl #8\n orr r10, r10, r11, lsl #8\n orr r9, r9, r10, lsl #16\n"
                     "and r9, r9, r7\n"
                     "sxtab16 r10, r3, r9\n sxtab16 r9, r3, r9, ror #8\n"
                     "str r9, [r0, lr]\n str r10, [r0], #4\n"
                     "add r1, r1, r2\n"
                     "subs r8, r8, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

/* The rest of the rows of `count` windows if that is one number per row, four rows together; zeros for missing rows. */
APART void arm_pairs_rest1(int16_t *to, const pairs_window *w, int32_t count, uint32_t add)
{
    const int8_t *x = w->x + (w->n & ~3);
    for (int32_t rows = w->kh; rows > 0; rows -= 4, x += 4 * w->step, to += 4 * count) {
        const int32_t last = (rows < 4 ? rows - 1 : 3) * w->step, one = w->step < last ? w->step : last;
        const uint32_t kept = 0xffffffffu >> (rows < 4 ? 32 - 8 * rows : 0);
        arm_pairs_gather(to, x, w->row, add, one, 2 * one < last ? 2 * one : last, last, kept, count);
    }
}

/* the rest of the rows of this many windows */
static inline void arm_pairs_rest(int16_t *to, const pairs_window *w, int32_t count, int32_t zero)
{
    if ((w->n & 3) == 1) {
        arm_pairs_rest1(to, w, count, pair_of(-zero));
    } else if (w->n & 3) {
        pairs_rest(to, w, count, zero);
    }
}

/* whole rows of pixels are one run; of windows, the rows of four of them. The numbers after the last of a window are
 * not zero, but their weights are. */
APART void arm_pairs_windows(int16_t *to, const pairs_window *first, int32_t blocks, int32_t zero)
{
    pairs_window w = *first;
    const int32_t fours = w.n / 4;
    if (w.kh == 1 && w.n == 4 * fours && blocks > 0) {
        arm_pairs_four_rows(to, w.x, w.row, pair_of(-zero), fours, blocks, 4 * (w.row - fours));
        return;
    }
    for (; blocks > 0; blocks--, w.x += 4 * w.row, to += 4 * pairs_length(w.kh * w.n)) {
        if (fours) {
            arm_pairs_four_rows(to, w.x, w.row, pair_of(-zero), fours, w.kh, w.step - 4 * fours);
        }
        arm_pairs_rest(to + 16 * fours * w.kh, &w, 4, zero);
    }
}

/* weights of rows without a rest are contiguous */
static inline void arm_pairs_window2(int16_t *to, const pairs_window *w)
{
    const int32_t fours = w->n / 4;
    if ((w->n & 3) == 0 && w->step == w->n) {
        arm_pairs_two_rows(to, w->x, w->row, w->kh * fours);
        return;
    }
    for (int32_t u = 0; u < w->kh && fours; u++) {
        arm_pairs_two_rows(to + 8 * fours * u, w->x + u * w->step, w->row, fours);
    }
    arm_pairs_rest(to + 8 * fours * w->kh, w, 2, 0);
}
#define pairs_few scalar_pairs_few
#define pairs_window4 arm_pairs_windows
#define pairs_window2 arm_pairs_window2

#endif
