/* fours.h for Cortex-M: bytes as floats, looked up. */
#ifndef INSITU_ISA_ARM_FLOATS_H
#define INSITU_ISA_ARM_FLOATS_H

#include "isa/inline.h"

/* r0 to, r1 x, r2 row, r3 n, on the stack the table: looked up, a byte takes two instructions and a fourth of one */
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

#endif
