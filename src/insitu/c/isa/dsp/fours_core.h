/* fours_core.h for Cortex-M with a floating-point unit that fuses: 16 sums, and two steps of both operands, use all 32
 * registers. 34 instructions for 32 products.
 */
#ifndef INSITU_ISA_DSP_FOURS_CORE_H
#define INSITU_ISA_DSP_FOURS_CORE_H

#include "isa/inline.h"

#define FOURS_ROW(y0, y1, y2, y3, a, b0, b1, b2, b3)            \
    "vfma.f32 " y0 ", " a ", " b0 "\n vfma.f32 " y1 ", " a ", " b1 "\n" \
    "vfma.f32 " y2 ", " a ", " b2 "\n vfma.f32 " y3 ", " a ", " b3 "\n"
#define FOURS_STEP(a0, a1, a2, a3, b0, b1, b2, b3)              \
    FOURS_ROW("s0", "s1", "s2", "s3", a0, b0, b1, b2, b3)       \
    FOURS_ROW("s4", "s5", "s6", "s7", a1, b0, b1, b2, b3)       \
    FOURS_ROW("s8", "s9", "s10", "s11", a2, b0, b1, b2, b3)     \
    FOURS_ROW("s12", "s13", "s14", "s15", a3, b0, b1, b2, b3)
#define FOURS_FIRST FOURS_STEP("s16", "s17", "s18", "s19", "s24", "s25", "s26", "s27")
#define FOURS_SECOND FOURS_STEP("s20", "s21", "s22", "s23", "s28", "s29", "s30", "s31")
#define FOURS_TWO "vldmia r1!, {s16-s23}\n vldmia r2!, {s24-s31}\n" FOURS_FIRST FOURS_SECOND

/* r1 a, r2 b, r3 y, r4 y_row, r5 depth, r6 blocks, r7 go_on, r8 count, r9 first b */
ASSEMBLED void arm_fours_sums(const fours_task *t UNUSED)
{
    __asm__ volatile("push {r4-r9, lr}\n"
                     "vpush {s16-s31}\n"
                     "ldm r0, {r1-r7}\n"
                     "mov r9, r2\n"
                     "1:\n"
                     "mov r2, r9\n"
                     "cbz r7, 2f\n"
                     "mov r0, r3\n"
                     "vldmia r0, {s0-s3}\n add r0, r0, r4\n"
                     "vldmia r0, {s4-s7}\n add r0, r0, r4\n"
                     "vldmia r0, {s8-s11}\n add r0, r0, r4\n"
                     "vldmia r0, {s12-s15}\n"
                     "b 3f\n"
                     "2:\n"
                     "adr r0, 8f\n"
                     "vldmia r0, {s0-s15}\n"
                     "3:\n"
                     "lsrs r8, r5, #2\n"
                     "beq 5f\n"
                     "4:\n" FOURS_TWO FOURS_TWO
                     "subs r8, r8, #1\n"
                     "bne.w 4b\n"
                     "5:\n"
                     "tst r5, #2\n"
                     "beq 6f\n" FOURS_TWO
                     "6:\n"
                     "tst r5, #1\n"
                     "beq 7f\n"
                     "vldmia r1!, {s16-s19}\n vldmia r2!, {s24-s27}\n" FOURS_FIRST
                     "7:\n"
                     "vstmia r3, {s0-s3}\n add r3, r3, r4\n"
                     "vstmia r3, {s4-s7}\n add r3, r3, r4\n"
                     "vstmia r3, {s8-s11}\n add r3, r3, r4\n"
                     "vstmia r3, {s12-s15}\n add r3, r3, r4\n"
                     "subs r6, r6, #1\n"
                     "bne.w 1b\n"
                     "vpop {s16-s31}\n"
                     "pop {r4-r9, pc}\n"
                     ".p2align 2\n"
                     "8:\n"
                     ".word 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n");
}
#define fours_sums arm_fours_sums

#endif
