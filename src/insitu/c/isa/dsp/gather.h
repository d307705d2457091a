/* gather.h for Cortex-M with a floating-point unit that fuses: 24 instructions per tap of sixteen channels. */
#ifndef INSITU_ISA_DSP_GATHER_H
#define INSITU_ISA_DSP_GATHER_H

#include "isa/inline.h"

#define GATHER_FMA(y, a, b) "vfma.f32 s" #y ", s" #a ", s" #b "\n"
#define GATHER_LOW                                                                                          \
    GATHER_FMA(0, 16, 24) GATHER_FMA(1, 17, 25) GATHER_FMA(2, 18, 26) GATHER_FMA(3, 19, 27)                 \
    GATHER_FMA(4, 20, 28) GATHER_FMA(5, 21, 29) GATHER_FMA(6, 22, 30) GATHER_FMA(7, 23, 31)
#define GATHER_HIGH                                                                                         \
    GATHER_FMA(8, 16, 24) GATHER_FMA(9, 17, 25) GATHER_FMA(10, 18, 26) GATHER_FMA(11, 19, 27)               \
    GATHER_FMA(12, 20, 28) GATHER_FMA(13, 21, 29) GATHER_FMA(14, 22, 30) GATHER_FMA(15, 23, 31)
#define GATHER_SCALE(y, a) "vmul.f32 s" #y ", s" #y ", s" #a "\n"

/* r1 g, r2 w, r3 rows, r4 cols, r5 g_step, r6 g_row, r7 w_step, r8 w_row: in bytes, steps from the end of the last read
 * */
ASSEMBLED void arm_gather_16(const gather_task *t UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "vpush {s16-s31}\n"
                     "ldm r0, {r1-r10}\n"
                     "adr r0, 4f\n"
                     "vldmia r0, {s0-s15}\n"
                     "cbz r3, 3f\n"
                     "cbz r4, 3f\n"
                     "1:\n"
                     "mov r0, r1\n"
                     "mov r12, r2\n"
                     "mov r11, r4\n"
                     "2:\n"
                     "vldmia r0!, {s16-s23}\n vldmia r12!, {s24-s31}\n" GATHER_LOW
                     "vldmia r0, {s16-s23}\n vldmia r12!, {s24-s31}\n" GATHER_HIGH
                     "add r0, r0, r5\n"
                     "add r12, r12, r7\n"
                     "subs r11, r11, #1\n"
                     "bne 2b\n"
                     "add r1, r1, r6\n"
                     "add r2, r2, r8\n"
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "3:\n"
                     "vldmia r10, {s16-s31}\n"
                     GATHER_SCALE(0, 16) GATHER_SCALE(1, 17) GATHER_SCALE(2, 18) GATHER_SCALE(3, 19)
                     GATHER_SCALE(4, 20) GATHER_SCALE(5, 21) GATHER_SCALE(6, 22) GATHER_SCALE(7, 23)
                     GATHER_SCALE(8, 24) GATHER_SCALE(9, 25) GATHER_SCALE(10, 26) GATHER_SCALE(11, 27)
                     GATHER_SCALE(12, 28) GATHER_SCALE(13, 29) GATHER_SCALE(14, 30) GATHER_SCALE(15, 31)
                     "vstmia r9, {s0-s15}\n"
                     "vpop {s16-s31}\n"
                     "pop {r4-r11, pc}\n"
                     ".p2align 2\n"
                     "4:\n"
                     ".word 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n");
}

static inline void arm_gather(const gather_task *t, int32_t channels)
{
    if (channels < GATHER) {
        scalar_gather(t, channels);
    } else {
        arm_gather_16(t);
    }
}
#define gather arm_gather

static inline void arm_gather_prepare(gather_task *t, int32_t channels)
{
    const int32_t size = sizeof(float);
    if (channels == GATHER) {
        t->g_step = (t->g_step - GATHER / 2) * size;
        t->g_row *= size;
        t->w_step = (t->w_step - GATHER) * size;
        t->w_row *= size;
    }
}
#define gather_prepare arm_gather_prepare

/* four bytes of a word as floats */
#define GATHER_FLOATS(word, a, b, c, d)                                         \
    "sxtb r4, " word "\n sxtb r5, " word ", ror #8\n vmov s" #a ", s" #b ", r4, r5\n"   \
    "sxtb r4, " word ", ror #16\n sxtb r5, " word ", ror #24\n vmov s" #c ", s" #d ", r4, r5\n"
#define GATHER_CONVERT(y) "vcvt.f32.s32 s" #y ", s" #y "\n"
/* r0 to, r1 the last tap, r2 bytes from tap to tap, r3 taps */
ASSEMBLED void arm_gather_floats(float *to UNUSED, const int8_t *w UNUSED, int32_t c UNUSED, int32_t taps UNUSED)
{
    __asm__ volatile("push {r4-r7, lr}\n"
                     "1:\n"
                     "ldr r6, [r1]\n ldr r7, [r1, #4]\n ldr r12, [r1, #8]\n ldr lr, [r1, #12]\n"
                     GATHER_FLOATS("r6", 0, 1, 2, 3) GATHER_FLOATS("r7", 4, 5, 6, 7)
                     GATHER_FLOATS("r12", 8, 9, 10, 11) GATHER_FLOATS("lr", 12, 13, 14, 15)
                     GATHER_CONVERT(0) GATHER_CONVERT(1) GATHER_CONVERT(2) GATHER_CONVERT(3)
                     GATHER_CONVERT(4) GATHER_CONVERT(5) GATHER_CONVERT(6) GATHER_CONVERT(7)
                     GATHER_CONVERT(8) GATHER_CONVERT(9) GATHER_CONVERT(10) GATHER_CONVERT(11)
                     GATHER_CONVERT(12) GATHER_CONVERT(13) GATHER_CONVERT(14) GATHER_CONVERT(15)
                     "vstmia r0!, {s0-s15}\n"
                     "sub r1, r1, r2\n"
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "pop {r4-r7, pc}\n");
}

static inline void arm_gather_weights(float *to, const int8_t *w, int32_t channels, int32_t taps, int32_t c)
{
    if (channels == GATHER && taps > 0) {
        arm_gather_floats(to, w + (taps - 1) * c, c, taps);
    } else {
        scalar_gather_weights(to, w, channels, taps, c);
    }
}
#define gather_weights arm_gather_weights

#endif
