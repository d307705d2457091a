/* turned.h for Cortex-M with the DSP extension: PKHBT and PKHTB turn, SMLAD multiplies pairs.
 *
 * In assembler: 8 sums, two words of each side and two pointers use all 14 registers.
 */
#ifndef INSITU_ISA_DSP_TURNED_H
#define INSITU_ISA_DSP_TURNED_H

#include "isa/dsp/words.h"

/* its distance from x: addresses have 32 bits */
static inline int32_t arm_turned_beyond(const int8_t *x, const int8_t *nothing)
{
    return (int32_t)((uintptr_t)nothing - (uintptr_t)x);
}
#define turned_beyond arm_turned_beyond

/* r0 to, r1 places, r2 x, r3 what is added to both numbers of a pair, on the stack words */
ASSEMBLED void arm_turned_fours(int16_t *to UNUSED, const int32_t *place UNUSED, const int8_t *x UNUSED,
                                uint32_t add UNUSED, int32_t words UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldr lr, [sp, #36]\n"
                     "1:\n"
                     "ldrd r4, r5, [r1], #8\n"
                     "ldr r6, [r4, r2]\n ldr r8, [r5, r2]\n"
                     "sxtab16 r9, r3, r6\n sxtab16 r10, r3, r8\n"
                     "sxtab16 r6, r3, r6, ror #8\n sxtab16 r8, r3, r8, ror #8\n"
                     "pkhbt r4, r9, r10, lsl #16\n pkhbt r5, r6, r8, lsl #16\n"
                     "pkhtb r11, r10, r9, asr #16\n pkhtb r12, r8, r6, asr #16\n"
                     "stm r0!, {r4, r5, r11, r12}\n"
                     "subs lr, lr, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

static inline void arm_turned_inputs(int16_t *to, const int8_t *x, const int32_t *place, int32_t zero, int32_t words)
{
    arm_turned_fours(to, place, x, pair_of(-zero), words);
}
#define turned_inputs arm_turned_inputs

#define COLUMN(y, x, odd) \
    "ldrb " y ", [r8, " x "]\n ldrb " odd ", [r9, " x "]\n pkhbt " y ", " y ", " odd ", lsl #16\n sxtab16 " y ", r3, " y "\n"

/* r0 to, r1 places, r2 the first column's x, r3 what is added, on the stack words, the other columns' */
ASSEMBLED void arm_turned_any(int16_t *to UNUSED, const int32_t *place UNUSED, const int8_t *a UNUSED, uint32_t add UNUSED,
                              int32_t words UNUSED, const int8_t *b UNUSED, const int8_t *c UNUSED,
                              const int8_t *d UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "add r7, sp, #36\n"
                     "ldm r7, {r4-r7}\n"
                     "1:\n"
                     "ldrd r8, r9, [r1], #8\n"
                     COLUMN("r10", "r2", "lr") COLUMN("r11", "r5", "lr") COLUMN("r12", "r6", "lr") COLUMN("lr", "r7", "r9")
                     "stm r0!, {r10, r11, r12, lr}\n"
                     "subs r4, r4, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

static inline void arm_turned_columns(int16_t *to, const int8_t *x, const int32_t *place, const int32_t *column,
                                      int32_t zero, int32_t words)
{
    arm_turned_any(to, place, x + column[0], pair_of(-zero), words, x + column[1], x + column[2], x + column[3]);
}
#define turned_columns arm_turned_columns

/* A channel of two pixels: the low halves, or the high ones, times the factors of both, which are in r3. `down` is the
 * place of the point in the products, `up` 16 less that. */
#define TURN_LOW(y, a, b, odd, down, up)                                                           \
    "smlabb " y ", " a ", r3, r4\n smlabt " odd ", " b ", r3, r4\n"                                \
    "asr " y ", " y ", #" down "\n pkhbt " y ", " y ", " odd ", lsl #" up "\n"
#define TURN_HIGH(y, a, b, odd, down, up)                                                          \
    "smlatb " y ", " a ", r3, r4\n smlatt " odd ", " b ", r3, r4\n"                                \
    "asr " y ", " y ", #" down "\n pkhbt " y ", " y ", " odd ", lsl #" up "\n"
#define TURN_HALVES                                                                                \
    "ldr r6, [r1, #4]\n ldr r5, [r1]\n add r1, r1, r2\n"                                           \
    "ldr r8, [r1, #4]\n ldr r7, [r1]\n add r1, r1, r2\n"                                           \
    TURN_LOW("r9", "r5", "r7", "r12", "14", "2") TURN_HIGH("r10", "r5", "r7", "r12", "14", "2")    \
    TURN_LOW("r11", "r6", "r8", "r12", "14", "2") TURN_HIGH("r12", "r6", "r8", "r8", "14", "2")
#define TURN_BYTES                                                                                 \
    "ldr r6, [r1]\n ldr r8, [r1, r2]\n add r1, r1, r2, lsl #1\n"                                   \
    "sxtb16 r5, r6\n sxtb16 r7, r8\n sxtb16 r6, r6, ror #8\n sxtb16 r8, r8, ror #8\n"              \
    TURN_LOW("r9", "r5", "r7", "r12", "6", "10") TURN_LOW("r10", "r6", "r8", "r12", "6", "10")     \
    TURN_HIGH("r11", "r5", "r7", "r12", "6", "10") TURN_HIGH("r12", "r6", "r8", "r8", "6", "10")

/* r0 to, r1 from, r2 bytes from pixel to pixel, r3 factors, on the stack words, half */
#define TURN_FUNCTION(name, word)                                                                                 \
    ASSEMBLED void name(int16_t *to UNUSED, const int8_t *from UNUSED, int32_t step UNUSED,                       \
                        const int16_t *factor UNUSED, int32_t words UNUSED, int32_t half UNUSED)                  \
    {                                                                                                             \
        __asm__ volatile("push {r4-r11, lr}\n"                                                                    \
                         "mov lr, r3\n"                                                                           \
                         "ldr r4, [sp, #40]\n"                                                                    \
                         "1:\n"                                                                                   \
                         "ldr r3, [lr], #4\n" word                                                                \
                         "stm r0!, {r9-r12}\n"                                                                    \
                         "ldr r5, [sp, #36]\n"                                                                    \
                         "subs r5, r5, #1\n"                                                                      \
                         "str r5, [sp, #36]\n"                                                                    \
                         "bne 1b\n"                                                                               \
                         "pop {r4-r11, pc}\n");                                                                   \
    }
TURN_FUNCTION(arm_turn_halves, TURN_HALVES)
TURN_FUNCTION(arm_turn_bytes, TURN_BYTES)

/* the rest that the assembler leaves */
ONCE void arm_turn_slowly(int16_t *to, const void *g, int32_t at, int32_t step, const int16_t *factor, int32_t pixels,
                          int32_t n, int32_t bytes)
{
    scalar_turned_gradients(to, g, at, step, factor, pixels, n, bytes);
}

ALWAYS_INLINE void arm_turn(int16_t *to, const int8_t *from, int32_t step, const int16_t *factor, int32_t words,
                            int32_t bytes)
{
    if (words && bytes == 2) {
        arm_turn_halves(to, from, step, factor, words, 1 << (TURNED_ONE - 1));
    } else if (words) {
        arm_turn_bytes(to, from, step, factor, words, 1 << (TURNED_ONE - 9));
    }
}

/* `far`: whether there is a factor of one half, which these cannot do. The last of an odd number of pixels is read
 * twice; the factor after its own is 0. */
ALWAYS_INLINE void arm_turned_gradients(int16_t *to, const void *g, int32_t at, int32_t step, const int16_t *factor,
                                        int32_t far, int32_t pixels, int32_t n, int32_t bytes)
{
    const int8_t *from = (const int8_t *)g + at * bytes;
    const int32_t words = pixels >> 1;
    if (far || n < TURNED) {
        arm_turn_slowly(to, g, at, step, factor, pixels, n, bytes);
        return;
    }
    arm_turn(to, from, step * bytes, factor, words, bytes);
    if (pixels & 1) {
        arm_turn(to + words * 2 * TURNED, from + (pixels - 1) * step * bytes, 0, factor + pixels - 1, 1, bytes);
    }
}
#define turned_gradients arm_turned_gradients

/* a word of two outputs, of four columns: 11 instructions of 4 bytes, 16 products */
#define TURNED_WORD                                                                                \
    "ldrd r2, r3, [r1], #16\n"                                                                     \
    "ldrd r12, lr, [r0], #8\n"                                                                     \
    "smlad r4, r12, r2, r4\n smlad r5, r12, r3, r5\n"                                              \
    "smlad r6, lr, r2, r6\n smlad r7, lr, r3, r7\n"                                                \
    "ldrd r12, lr, [r0], #8\n"                                                                     \
    "smlad r8, r12, r2, r8\n smlad r9, r12, r3, r9\n"                                              \
    "smlad r10, lr, r2, r10\n smlad r11, lr, r3, r11\n"
#define TURNED_WORDS TURNED_WORD TURNED_WORD TURNED_WORD TURNED_WORD

/* On the stack: 0 g, 4 eight zeros, 36 where in the loop at 2 a row starts, so that it ends with it; 40 end of g, 44 end
 * of x, 48 where sums start: with zeros at 5, with what is there at 6; 52 dw, 56 row, 60 x, 64 twos, 68 the row of dw, 72
 * bytes to g of the next two outputs, and of those after them, 80 bytes of four rows */
ASSEMBLED void arm_turned_sums(const turned_task *t UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "sub sp, sp, #84\n"
                     "ldm r0, {r0-r7}\n"
                     "lsl r8, r4, #4\n"
                     "mla r9, r8, r5, r0\n"
                     "mov r10, #8\n"
                     "sub r11, r8, #8\n"
                     "strd r10, r11, [sp, #72]\n"
                     "str r8, [sp, #80]\n"
                     "str r9, [sp, #44]\n"
                     "strd r2, r3, [sp, #52]\n"
                     "strd r0, r6, [sp, #60]\n"
                     "str r2, [sp, #68]\n"
                     "str r1, [sp]\n"
                     "rsb r4, r4, #0\n"
                     "and r4, r4, #7\n"
                     "mov r5, #44\n"
                     "adr.w r12, 2f\n"
                     "mla r4, r4, r5, r12\n"
                     "orr r4, r4, #1\n"
                     "str r4, [sp, #36]\n"
                     "adr.w r12, 5f\n"
                     "cbz r7, 3f\n"
                     "adr.w r12, 6f\n"
                     "3:\n"
                     "orr r12, r12, #1\n"
                     "str r12, [sp, #48]\n"
                     "movs r4, #0\n movs r5, #0\n movs r6, #0\n movs r7, #0\n"
                     "add r12, sp, #4\n"
                     "stm r12!, {r4-r7}\n stm r12, {r4-r7}\n"
                     "4:\n"
                     "ldr r1, [sp]\n ldr r2, [sp, #80]\n"
                     "add r1, r1, r2\n"
                     "str r1, [sp, #40]\n"
                     "ldrd r2, r3, [sp, #52]\n"
                     "add r3, r2, r3\n"
                     "ldr r0, [sp, #60]\n"
                     "ldr pc, [sp, #48]\n"
                     ".p2align 2\n"
                     "6:\n"
                     "ldm r2, {r4, r6, r8, r10}\n"
                     "ldm r3, {r5, r7, r9, r11}\n"
                     "ldr r1, [sp]\n"
                     "ldr pc, [sp, #36]\n"
                     ".p2align 2\n"
                     "5:\n"
                     "ldm.w sp, {r1, r4-r11, pc}\n"
                     ".p2align 2\n"
                     "2:\n" TURNED_WORDS TURNED_WORDS
                     "ldr r12, [sp, #40]\n"
                     "cmp r1, r12\n"
                     "bne 2b\n"
                     "ldrd r2, r3, [sp, #52]\n"
                     "ldrd r12, lr, [sp, #44]\n"
                     "add r3, r2, r3\n"
                     "stm r2!, {r4, r6, r8, r10}\n"
                     "stm r3!, {r5, r7, r9, r11}\n"
                     "str r2, [sp, #52]\n"
                     "cmp r0, r12\n"
                     "it ne\n bxne lr\n"
                     "ldrd r0, r1, [sp, #64]\n" /* the next two outputs */
                     "subs r0, r0, #1\n"
                     "beq 7f\n"
                     "ldr r3, [sp, #56]\n"
                     "add r1, r1, r3, lsl #1\n"
                     "str r1, [sp, #52]\n"
                     "strd r0, r1, [sp, #64]\n"
                     "ldrd r2, r3, [sp, #72]\n"
                     "strd r3, r2, [sp, #72]\n"
                     "ldr r1, [sp]\n"
                     "add r1, r1, r2\n"
                     "str r1, [sp]\n"
                     "b 4b\n"
                     "7:\n"
                     "add sp, sp, #84\n"
                     "pop {r4-r11, pc}\n");
}
#define turned_sums arm_turned_sums

/* r0 places, r1 g, r2 x, r3 what is added to both numbers of a pair; on the stack dw, end of places, fours of channels */
ASSEMBLED void arm_turned_tap_fours(const int32_t *place UNUSED, const int16_t *g UNUSED, const int8_t *x UNUSED,
                                    uint32_t add UNUSED, int32_t *dw UNUSED, const int32_t *end UNUSED,
                                    int32_t fours UNUSED)
{
    __asm__ volatile("push {r0, r4-r11, lr}\n"
                     "1:\n"
                     "ldr r0, [sp]\n"
                     "ldr r12, [sp, #40]\n"
                     "ldm r12, {r4-r7}\n"
                     "2:\n"
                     "ldrd r8, r9, [r0], #8\n"
                     "ldr r8, [r8, r2]\n ldr r9, [r9, r2]\n"
                     "sxtab16 r10, r3, r8\n sxtab16 r11, r3, r9\n"
                     "pkhbt r12, r10, r11, lsl #16\n pkhtb lr, r11, r10, asr #16\n"
                     "sxtab16 r8, r3, r8, ror #8\n sxtab16 r9, r3, r9, ror #8\n"
                     "pkhbt r10, r8, r9, lsl #16\n pkhtb r9, r9, r8, asr #16\n"
                     "ldrd r8, r11, [r1], #8\n"
                     "smlad r4, r12, r8, r4\n smlad r5, r10, r11, r5\n"
                     "ldrd r8, r11, [r1], #8\n"
                     "smlad r6, lr, r8, r6\n smlad r7, r9, r11, r7\n"
                     "ldr r8, [sp, #44]\n"
                     "cmp r0, r8\n"
                     "bne 2b\n"
                     "ldr r12, [sp, #40]\n"
                     "stm r12!, {r4-r7}\n"
                     "str r12, [sp, #40]\n"
                     "adds r2, r2, #4\n"
                     "ldr r8, [sp, #48]\n"
                     "subs r8, r8, #1\n"
                     "str r8, [sp, #48]\n"
                     "bne 1b\n"
                     "pop {r0, r4-r11, pc}\n");
}

static inline void arm_turned_taps(int32_t *dw, const int8_t *x, const int32_t *place, const int16_t *g, int32_t zero,
                                   int32_t words, int32_t n)
{
    const int32_t whole = n & -TURNED;
    if (whole) {
        arm_turned_tap_fours(place, g, x, pair_of(-zero), dw, place + 2 * words, whole / TURNED);
    }
    scalar_turned_taps(dw + whole, x + whole, place, g + turned_row(whole, words), zero, words, n - whole);
}
#define turned_taps arm_turned_taps

#endif
