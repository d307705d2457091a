/* rows.h for Cortex-M with a floating-point unit: sixteen sums in registers. */
#ifndef INSITU_ISA_DSP_ROWS_H
#define INSITU_ISA_DSP_ROWS_H

#include "isa/inline.h"

#define ROWS_ADD(y, x) "vadd.f32 s" #y ", s" #y ", s" #x "\n"

/* r0 y, r1 x, r2 rows, r3 bytes of a row */
ASSEMBLED void arm_add_16(float *y UNUSED, const float *x UNUSED, int32_t rows UNUSED, int32_t row UNUSED)
{
    __asm__ volatile("vpush {s16-s31}\n"
                     "adr r12, 2f\n"
                     "vldmia r12, {s0-s15}\n"
                     "1:\n"
                     "vldmia r1, {s16-s31}\n"
                     "add r1, r1, r3\n"
                     ROWS_ADD(0, 16) ROWS_ADD(1, 17) ROWS_ADD(2, 18) ROWS_ADD(3, 19)
                     ROWS_ADD(4, 20) ROWS_ADD(5, 21) ROWS_ADD(6, 22) ROWS_ADD(7, 23)
                     ROWS_ADD(8, 24) ROWS_ADD(9, 25) ROWS_ADD(10, 26) ROWS_ADD(11, 27)
                     ROWS_ADD(12, 28) ROWS_ADD(13, 29) ROWS_ADD(14, 30) ROWS_ADD(15, 31)
                     "subs r2, r2, #1\n"
                     "bne 1b\n"
                     "vstmia r0, {s0-s15}\n"
                     "vpop {s16-s31}\n"
                     "bx lr\n"
                     ".p2align 2\n"
                     "2:\n"
                     ".word 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n");
}

static inline void add_rows(float *y, const float *x, int32_t rows, int32_t n)
{
    int32_t o = 0;
    for (; rows > 0 && o + 16 <= n; o += 16) {
        arm_add_16(y + o, x + o, rows, n * (int32_t)sizeof(float));
    }
    scalar_add_rows(y + o, x + o, rows, n - o, n);
}

#endif
