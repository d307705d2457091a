/* mask.h for Cortex-M with the DSP extension: eight numbers in registers. */
#ifndef INSITU_ISA_DSP_MASK_H
#define INSITU_ISA_DSP_MASK_H

#include "isa/inline.h"

/* r0 y, r1 g, r2 mask, r3 how many eights: a bit is repeated 32 times */
#define MASK_AND(r, bit) "sbfx lr, r12, #" #bit ", #1\n and r" #r ", r" #r ", lr\n"
ASSEMBLED void arm_mask_eights(float *y UNUSED, const float *g UNUSED, const uint8_t *mask UNUSED,
                               int32_t eights UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "1:\n"
                     "ldrb r12, [r2], #1\n"
                     "ldm r1!, {r4-r11}\n" MASK_AND(4, 0) MASK_AND(5, 1) MASK_AND(6, 2) MASK_AND(7, 3)
                     MASK_AND(8, 4) MASK_AND(9, 5) MASK_AND(10, 6) MASK_AND(11, 7)
                     "stm r0!, {r4-r11}\n"
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

static inline void mask_row_f32(float *y, const float *g, const uint8_t *mask, int32_t c)
{
    if (c >= 8) {
        arm_mask_eights(y, g, mask, c / 8);
    }
    for (int32_t i = c & ~7; i < c; i++) {
        y[i] = (mask[i >> 3] >> (i & 7)) & 1 ? g[i] : 0.0f;
    }
}

#endif
