/* mantissa_mask.h for Cortex-M with the DSP extension: a byte of the mask at a time, its bits looked up. */
#ifndef INSITU_ISA_DSP_MANTISSA_MASK_H
#define INSITU_ISA_DSP_MANTISSA_MASK_H

#include "isa/inline.h"

/* two bits, or four, as a word of two mantissas, or four */
static const uint32_t arm_two_bits[4] = {0, 0xffff, 0xffff0000, 0xffffffff};
static const uint32_t arm_four_bits[16] = {
    0,          0xff,       0xff00,     0xffff,     0xff0000,   0xff00ff,   0xffff00,   0xffffff,
    0xff000000, 0xff0000ff, 0xff00ff00, 0xff00ffff, 0xffff0000, 0xffff00ff, 0xffffff00, 0xffffffff};

#define MASK_WORD(word, from, bits)                                                                \
    "ubfx r12, r5, #" #from ", #" #bits "\n"                                                       \
    "ldr r12, [r4, r12, lsl #2]\n"                                                                 \
    "and " word ", " word ", r12\n"

/* r0 y, r1 m, r2 mask, r3 how many bytes of the mask, on the stack the table */
#define MASK_FUNCTION(name, list, words)                                                                         \
    ASSEMBLED void name(void *y UNUSED, const void *m UNUSED, const uint8_t *mask UNUSED, int32_t eights UNUSED, \
                        const uint32_t *table UNUSED)                                                            \
    {                                                                                                            \
        __asm__ volatile("push {r4-r9}\n"                                                                        \
                         "ldr r4, [sp, #24]\n"                                                                   \
                         "1:\n"                                                                                  \
                         "ldrb r5, [r2], #1\n"                                                                   \
                         "ldm r1!, " list "\n" words                                                             \
                         "stm r0!, " list "\n"                                                                   \
                         "subs r3, r3, #1\n"                                                                     \
                         "bne 1b\n"                                                                              \
                         "pop {r4-r9}\n"                                                                         \
                         "bx lr\n");                                                                             \
    }
MASK_FUNCTION(arm_mask_halves, "{r6-r9}",
              MASK_WORD("r6", 0, 2) MASK_WORD("r7", 2, 2) MASK_WORD("r8", 4, 2) MASK_WORD("r9", 6, 2))
MASK_FUNCTION(arm_mask_bytes, "{r6-r7}", MASK_WORD("r6", 0, 4) MASK_WORD("r7", 4, 4))

ALWAYS_INLINE void arm_mask_mantissas(void *y, const void *m, const uint8_t *mask, int32_t at, int32_t n, int32_t bytes)
{
    int8_t *to = (int8_t *)y + at * bytes;
    const int8_t *from = (const int8_t *)m + at * bytes;
    const int32_t eights = (((intptr_t)to | (intptr_t)from) & 3) == 0 ? n / 8 : 0;
    if (eights && bytes == 2) {
        arm_mask_halves(to, from, mask, eights, arm_two_bits);
    } else if (eights) {
        arm_mask_bytes(to, from, mask, eights, arm_four_bits);
    }
    scalar_mask_mantissas(y, m, mask + eights, at + 8 * eights, n - 8 * eights, bytes);
}
#define mask_mantissas arm_mask_mantissas

#endif
