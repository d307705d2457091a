/* y[i] = g[i] where bit i of the mask is one, else 0: c elements, c bits from a byte on. */
#ifndef INSITU_ISA_MASK_H
#define INSITU_ISA_MASK_H

#include "isa/inline.h"
#include "isa/lanes.h"

#ifdef INSITU_LANES
static inline void mask_row_f32(float *y, const float *g, const uint8_t *mask, int32_t c)
{
    int32_t i = 0;
    for (; i + LANES <= c; i += LANES, mask += LANES / 8) {
        const uint32_t bits = mask[0] | (LANES > 8 ? (uint32_t)mask[LANES / 8 - 1] << 8 : 0u);
        vf_store(y + i, lanes(LANES), vf_load(lanes_of(bits), g + i));
    }
    for (int32_t k = 0; i + k < c; k++) {
        y[i + k] = (mask[k >> 3] >> (k & 7)) & 1 ? g[i + k] : 0.0f;
    }
}
#elif defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && !defined(INSITU_SCALAR)
/* r0 y, r1 g, r2 mask, r3 how many eights: a bit becomes 32 of them */
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
#else
static inline void mask_row_f32(float *y, const float *g, const uint8_t *mask, int32_t c)
{
    for (int32_t i = 0; i < c; i++) {
        y[i] = (mask[i >> 3] >> (i & 7)) & 1 ? g[i] : 0.0f;
    }
}
#endif

#endif
