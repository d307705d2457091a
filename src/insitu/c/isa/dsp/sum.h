/* sum.h for Cortex-M with the DSP extension: one SMLAD takes both terms of an element. */
#ifndef INSITU_ISA_DSP_SUM_H
#define INSITU_ISA_DSP_SUM_H

#include "isa/dsp/words.h"
#include "isa/inline.h"

/* both multipliers, and the common term of all elements, if that fits */
typedef struct {
    uint32_t m;
    int32_t add, shift;
} sum_way;

static inline int sum_way_of(sum_way *way, const sum_quant *q)
{
    way->m = ((uint32_t)q->ma & 0xffffu) | (uint32_t)q->mb << 16;
    way->shift = q->shift;
    if (q->shift > 20 || q->lo != -128 || q->hi != 127) {
        return 0;
    }
    way->add = (1 << (q->shift - 1)) + q->y_zero * (1 << q->shift) - q->ma * q->a_zero - q->mb * q->b_zero;
    return 1;
}

/* four elements in r7-r10, not clamped: r1 a, r2 b, r4 both multipliers, r5 what is added, r6 the shift */
#define SUM_FOUR                                                    \
    "ldr r7, [r1], #4\n"                                            \
    "ldr r8, [r2], #4\n"                                            \
    "pkhbt r9, r7, r8, lsl #16\n"                                   \
    "pkhtb r10, r8, r7, asr #16\n"                                  \
    "sxtb16 r7, r9\n sxtb16 r8, r9, ror #8\n sxtb16 r9, r10\n sxtb16 r10, r10, ror #8\n" \
    "smlad r7, r7, r4, r5\n smlad r8, r8, r4, r5\n smlad r9, r9, r4, r5\n smlad r10, r10, r4, r5\n" \
    "asr r7, r7, r6\n asr r8, r8, r6\n asr r9, r9, r6\n asr r10, r10, r6\n"
#define SUM_BYTE(v) "ssat " v ", #8, " v "\n strb " v ", [r0], #1\n"
#define SUM_BIT(v, bit) "ssat r11, #8, " v "\n strb r11, [r0], #1\n cmp r11, " v "\n it eq\n orreq lr, lr, #" #bit "\n"

/* r0 y, r1 a, r2 b, r3 fours, on the stack the way */
ASSEMBLED void arm_sum_fours(int8_t *y UNUSED, const int8_t *a UNUSED, const int8_t *b UNUSED, int32_t fours UNUSED,
                             const sum_way *way UNUSED)
{
    __asm__ volatile("push {r4-r10, lr}\n"
                     "ldr r12, [sp, #32]\n"
                     "ldm r12, {r4-r6}\n"
                     "1:\n" SUM_FOUR SUM_BYTE("r7") SUM_BYTE("r8") SUM_BYTE("r9") SUM_BYTE("r10")
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "pop {r4-r10, pc}\n");
}

/* r0 y, r1 a, r2 b, r3 eights, on the stack the way and the mask */
ASSEMBLED void arm_sum_eights(int8_t *y UNUSED, const int8_t *a UNUSED, const int8_t *b UNUSED, int32_t eights UNUSED,
                              const sum_way *way UNUSED, uint8_t *mask UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldr r12, [sp, #36]\n"
                     "ldm r12, {r4-r6}\n"
                     "ldr r12, [sp, #40]\n"
                     "1:\n"
                     "mov lr, #0\n" SUM_FOUR SUM_BIT("r7", 1) SUM_BIT("r8", 2) SUM_BIT("r9", 4) SUM_BIT("r10", 8)
                     SUM_FOUR SUM_BIT("r7", 16) SUM_BIT("r8", 32) SUM_BIT("r9", 64) SUM_BIT("r10", 128)
                     "strb lr, [r12], #1\n"
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

static inline void arm_sum_run(int8_t *y, const int8_t *a, const int8_t *b, int32_t n, const sum_quant *q)
{
    sum_way way;
    const int32_t whole = n >= 4 && sum_way_of(&way, q) ? n & ~3 : 0;
    if (whole) {
        arm_sum_fours(y, a, b, whole / 4, &way);
    }
    scalar_sum_run(y + whole, a + whole, b + whole, n - whole, q);
}

static inline void arm_sum_masked(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, int32_t n,
                                  const sum_quant *q)
{
    sum_way way;
    const int32_t whole = n >= 8 && sum_way_of(&way, q) ? n & ~7 : 0;
    if (whole) {
        arm_sum_eights(y, a, b, whole / 8, &way, mask);
    }
    scalar_sum_masked(y + whole, mask + whole / 8, a + whole, b + whole, n - whole, q);
}
#define sum_run arm_sum_run
#define sum_masked arm_sum_masked

#endif
