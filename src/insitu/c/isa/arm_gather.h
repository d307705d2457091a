/* gather.h for Cortex-M with a floating-point unit that fuses: 24 instructions a tap of sixteen channels. */
#ifndef INSITU_ISA_ARM_GATHER_H
#define INSITU_ISA_ARM_GATHER_H

#include "isa/inline.h"

#define GATHER_FMA(y, a, b) "vfma.f32 s" #y ", s" #a ", s" #b "\n"
#define GATHER_LOW                                                                                          \
    GATHER_FMA(0, 16, 24) GATHER_FMA(1, 17, 25) GATHER_FMA(2, 18, 26) GATHER_FMA(3, 19, 27)                 \
    GATHER_FMA(4, 20, 28) GATHER_FMA(5, 21, 29) GATHER_FMA(6, 22, 30) GATHER_FMA(7, 23, 31)
#define GATHER_HIGH                                                                                         \
    GATHER_FMA(8, 16, 24) GATHER_FMA(9, 17, 25) GATHER_FMA(10, 18, 26) GATHER_FMA(11, 19, 27)               \
    GATHER_FMA(12, 20, 28) GATHER_FMA(13, 21, 29) GATHER_FMA(14, 22, 30) GATHER_FMA(15, 23, 31)
#define GATHER_SCALE(y, a) "vmul.f32 s" #y ", s" #y ", s" #a "\n"

/* r1 g, r2 w, r3 rows, r4 cols, r5 g_step, r6 g_row, r7 w_step, r8 w_row: steps in bytes, from the end of what was read */
ASSEMBLED void arm_gather_16(const gather_task *t UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "vpush {s16-s31}\n"
                     "ldm r0, {r1-r10}\n"
                     "adr r0, 4f\n"
                     "vldmia r0, {s0-s15}\n"
                     "cbz r3, 3f\n"
                     "1:\n"
                     "mov r11, r4\n"
                     "2:\n"
                     "vldmia r1!, {s16-s23}\n vldmia r2!, {s24-s31}\n" GATHER_LOW
                     "vldmia r1, {s16-s23}\n vldmia r2!, {s24-s31}\n" GATHER_HIGH
                     "add r1, r1, r5\n"
                     "add r2, r2, r7\n"
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
    const int32_t size = sizeof(float);
    gather_task bytes = *t;
    if (channels < GATHER) {
        scalar_gather(t, channels);
        return;
    }
    bytes.rows = t->cols > 0 && t->rows > 0 ? t->rows : 0;
    bytes.g_step = (t->g_step - GATHER / 2) * size;
    bytes.g_row = (t->g_row - t->cols * t->g_step) * size;
    bytes.w_step = (t->w_step - GATHER) * size;
    bytes.w_row = (t->w_row - t->cols * t->w_step) * size;
    arm_gather_16(&bytes);
}
#define gather arm_gather

#endif
