/* fours.h for Cortex-M: bytes as floats, looked up. */
#ifndef INSITU_ISA_DSP_FOURS_H
#define INSITU_ISA_DSP_FOURS_H

#include "isa/inline.h"
#include "isa/machine.h"

/* r0 to, r1 x, r2 row, r3 n, on the stack the table: looked up, a byte takes two and a quarter instructions */
#define FOURS_LOOK(v, at) "ldrsb " v ", [r1, #" #at "]\n ldr " v ", [r12, " v ", lsl #2]\n"
ASSEMBLED void arm_fours_floats(float *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED, int32_t n UNUSED,
                                const float *table UNUSED)
{
    __asm__ volatile("push {r4-r7}\n"
                     "ldr r12, [sp, #16]\n"
                     "add r12, r12, #512\n"
                     "lsrs r3, r3, #1\n"
                     "bcc 1f\n" FOURS_LOOK("r4", 0) FOURS_LOOK("r5", 1) FOURS_LOOK("r6", 2) FOURS_LOOK("r7", 3)
                     "add r1, r1, r2\n"
                     "stm r0!, {r4-r7}\n"
                     "1:\n"
                     "cbz r3, 3f\n"
                     "2:\n" FOURS_LOOK("r4", 0) FOURS_LOOK("r5", 1) FOURS_LOOK("r6", 2) FOURS_LOOK("r7", 3)
                     "add r1, r1, r2\n"
                     "stm r0!, {r4-r7}\n" FOURS_LOOK("r4", 0) FOURS_LOOK("r5", 1) FOURS_LOOK("r6", 2) FOURS_LOOK("r7", 3)
                     "add r1, r1, r2\n"
                     "stm r0!, {r4-r7}\n"
                     "subs r3, r3, #1\n"
                     "bne 2b\n"
                     "3:\n"
                     "pop {r4-r7}\n"
                     "bx lr\n");
}
#define fours_floats arm_fours_floats

#if INSITU_DSP_FLOATS
#define FOURS_MUL(y, x, s) "vmul.f32 s" #y ", s" #x ", s" #s "\n"
/* r0 to, r1 x, r2 bytes of a row, r3 scale, on the stack how many fours */
ASSEMBLED void arm_fours_scale(float *to UNUSED, const float *x UNUSED, int32_t row UNUSED, const float *scale UNUSED,
                               int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r6, lr}\n"
                     "vpush {s16-s31}\n"
                     "ldr r12, [sp, #80]\n"
                     "add r4, r1, r2\n add r5, r4, r2\n add r6, r5, r2\n"
                     "1:\n"
                     "vldmia r3!, {s0-s3}\n"
                     "vldmia r1!, {s4-s7}\n vldmia r4!, {s8-s11}\n vldmia r5!, {s12-s15}\n vldmia r6!, {s16-s19}\n"
                     FOURS_MUL(20, 4, 0) FOURS_MUL(21, 8, 0) FOURS_MUL(22, 12, 0) FOURS_MUL(23, 16, 0)
                     FOURS_MUL(24, 5, 1) FOURS_MUL(25, 9, 1) FOURS_MUL(26, 13, 1) FOURS_MUL(27, 17, 1)
                     FOURS_MUL(28, 6, 2) FOURS_MUL(29, 10, 2) FOURS_MUL(30, 14, 2) FOURS_MUL(31, 18, 2)
                     FOURS_MUL(16, 7, 3) FOURS_MUL(17, 11, 3) FOURS_MUL(18, 15, 3) FOURS_MUL(19, 19, 3)
                     "vstmia r0!, {s20-s31}\n vstmia r0!, {s16-s19}\n"
                     "subs r12, r12, #1\n"
                     "bne 1b\n"
                     "vpop {s16-s31}\n"
                     "pop {r4-r6, pc}\n");
}

static inline void arm_fours_scaled(float *to, const float *x, int32_t row, const float *scale, int32_t n)
{
    const int32_t whole = n & ~3;
    if (whole) {
        arm_fours_scale(to, x, row * (int32_t)sizeof(float), scale, whole / 4);
    }
    scalar_fours_scaled(to + FOUR * whole, x + whole, row, scale + whole, n - whole);
}
#define fours_scaled arm_fours_scaled
#endif

#endif
