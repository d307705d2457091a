/* mantissa_sums.h for Cortex-M with the DSP extension: eight channels in registers. */
#ifndef INSITU_ISA_DSP_MANTISSA_SUMS_H
#define INSITU_ISA_DSP_MANTISSA_SUMS_H

#include "isa/inline.h"

/* Eight channels, whose mantissas are word-aligned. r0 sums, r1 from, r2 bytes from pixel to pixel, r3 e; on the stack
 * apart, up, rows, pixels. Within a row r3 counts pixels, and e waits on the stack. */
#define SUMS_FUNCTION(name, pixel)                                                                                \
    ASSEMBLED void name(int32_t *sums UNUSED, const int8_t *from UNUSED, int32_t step UNUSED, const int8_t *e UNUSED, \
                        int32_t apart UNUSED, int32_t up UNUSED, int32_t rows UNUSED, int32_t pixels UNUSED)      \
    {                                                                                                             \
        __asm__ volatile("push {r0, r3-r11, lr}\n"                                                                \
                         "ldm r0, {r4-r11}\n"                                                                     \
                         "1:\n"                                                                                   \
                         "ldr r3, [sp, #4]\n"                                                                     \
                         "ldrd r0, r12, [sp, #44]\n"                                                              \
                         "ldrsb lr, [r3]\n"                                                                       \
                         "add r3, r3, r0\n"                                                                       \
                         "str r3, [sp, #4]\n"                                                                     \
                         "ldr r3, [sp, #56]\n"                                                                    \
                         "add r12, r12, lr\n"                                                                     \
                         "cmp r12, #14\n"                                                                         \
                         "bhi 4f\n"                                                                               \
                         "mov lr, #1\n"                                                                           \
                         "lsl lr, lr, r12\n"                                                                      \
                         "2:\n" pixel                                                                             \
                         "add r1, r1, r2\n"                                                                       \
                         "subs r3, r3, #1\n"                                                                      \
                         "bne 2b\n"                                                                               \
                         "3:\n"                                                                                   \
                         "ldr r3, [sp, #52]\n"                                                                    \
                         "subs r3, r3, #1\n"                                                                      \
                         "str r3, [sp, #52]\n"                                                                    \
                         "bne 1b\n"                                                                               \
                         "pop {r0, r3}\n"                                                                         \
                         "stm r0, {r4-r11}\n"                                                                     \
                         "pop {r4-r11, pc}\n"                                                                     \
                         "4:\n"                                                                                   \
                         "mla r1, r2, r3, r1\n"                                                                   \
                         "b 3b\n");                                                                               \
    }
/* the low half of x, and the high one, times the factor */
#define SUMS_LOW(y, x) "smlabb " y ", " x ", lr, " y "\n"
#define SUMS_HIGH(y, x) "smlatb " y ", " x ", lr, " y "\n"
SUMS_FUNCTION(arm_sums_halves,
              "ldrd r0, r12, [r1]\n" SUMS_LOW("r4", "r0") SUMS_HIGH("r5", "r0") SUMS_LOW("r6", "r12")
              SUMS_HIGH("r7", "r12") "ldrd r0, r12, [r1, #8]\n" SUMS_LOW("r8", "r0") SUMS_HIGH("r9", "r0")
              SUMS_LOW("r10", "r12") SUMS_HIGH("r11", "r12"))
#define SUMS_FOUR(a, b, c, d, at)                                                                                  \
    "ldr r0, [r1, #" #at "]\n sxtb16 r12, r0\n sxtb16 r0, r0, ror #8\n"                                            \
    SUMS_LOW(a, "r12") SUMS_LOW(b, "r0") SUMS_HIGH(c, "r12") SUMS_HIGH(d, "r0")
SUMS_FUNCTION(arm_sums_bytes, SUMS_FOUR("r4", "r5", "r6", "r7", 0) SUMS_FOUR("r8", "r9", "r10", "r11", 4))

APART void arm_mantissa_sums(int32_t *sums, const void *m, int32_t at, int32_t step, const int8_t *e, int32_t apart,
                             int32_t up, int32_t rows, int32_t pixels, int32_t n, int32_t bytes)
{
    const int8_t *from = (const int8_t *)m + at * bytes;
    const int32_t at_words = (((intptr_t)from | step * bytes) & 3) == 0 && rows > 0 && pixels > 0;
    int32_t k = 0;
    for (; at_words && k + 8 <= n; k += 8) {
        if (bytes == 2) {
            arm_sums_halves(sums + k, from + k * bytes, step * bytes, e, apart, up, rows, pixels);
        } else {
            arm_sums_bytes(sums + k, from + k * bytes, step * bytes, e, apart, up, rows, pixels);
        }
    }
    if (k < n) {
        scalar_mantissa_sums(sums + k, m, at + k, step, e, apart, up, rows, pixels, n - k, bytes);
    }
}
#define mantissa_sums arm_mantissa_sums

#endif
