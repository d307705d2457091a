/* mantissas.h for Cortex-M with the DSP extension: one multiply-add rounds, one shift ends it, PKHBT puts two together.
 *
 * In assembler, because the kernels that inline these leave no free registers.
 */
#ifndef INSITU_ISA_DSP_MANTISSAS_H
#define INSITU_ISA_DSP_MANTISSAS_H

#include "isa/dsp/words.h"

/* A factor and a distance for the assembler; a distance at which everything is 0 becomes a factor of 0. */
typedef struct {
    const int16_t *share;
    int32_t half, d;
} arm_factor;

static const int16_t arm_no_shares[BLOCK_GROUP] = {0};

ALWAYS_INLINE arm_factor arm_factor_of(const int16_t *share, int32_t d, int32_t bytes)
{
    const int32_t by = bytes == 2 ? d : d - 8;
    const arm_factor some = {share, 1 << (by < 31 ? by - 1 : 0), by}, none = {arm_no_shares, 0, 1};
    return by < 31 ? some : none;
}

/* acc + both low halves, or both high ones; then the shift */
#define SCALE_LOW(y, x, w) "smlabb " y ", " x ", " w ", r6\n asr " y ", " y ", r7\n"
#define SCALE_HIGH(y, x, w) "smlatt " y ", " x ", " w ", r6\n asr " y ", " y ", r7\n"
#define SCALE_TOGETHER(y, a, b) "pkhbt " y ", " a ", " b ", lsl #16\n"

/* One pixel of four channels: r12 from, r3 bytes from pixel to pixel, r4 and r5 factors, r6 half, r7 d; pairs 0,2 and
 * 1,3 become words `at` and four words later. Two-byte mantissas lie as pairs 0,1 and 2,3, and so do factors; one-byte
 * ones are widened to pairs 0,2 and 1,3, and factors made to agree. */
#define PAIRS_PIXEL_HALVES(at)                                                                     \
    "ldr r9, [r12, #4]\n ldr r8, [r12]\n add r12, r12, r3\n"                                       \
    SCALE_LOW("r10", "r8", "r4") SCALE_LOW("r11", "r9", "r5") SCALE_TOGETHER("r10", "r10", "r11")  \
    SCALE_HIGH("r8", "r8", "r4") SCALE_HIGH("r9", "r9", "r5") SCALE_TOGETHER("r8", "r8", "r9")     \
    "str r10, [r0, #" #at "]\n str r8, [r0, #16+" #at "]\n"
#define PAIRS_PIXEL_BYTES(at)                                                                      \
    "ldr r8, [r12]\n add r12, r12, r3\n sxtb16 r9, r8, ror #8\n sxtb16 r8, r8\n"                   \
    SCALE_LOW("r10", "r8", "r4") SCALE_HIGH("r11", "r8", "r4") SCALE_TOGETHER("r10", "r10", "r11") \
    SCALE_LOW("r8", "r9", "r5") SCALE_HIGH("r9", "r9", "r5") SCALE_TOGETHER("r8", "r8", "r9")      \
    "str r10, [r0, #" #at "]\n str r8, [r0, #16+" #at "]\n"
#define FACTORS_HALVES "ldr r4, [r1], #4\n ldr r5, [r1], #4\n"
#define FACTORS_BYTES                                                                              \
    "ldr r8, [r1], #4\n ldr r9, [r1], #4\n"                                                                    \
    "pkhbt r4, r8, r9, lsl #16\n pkhtb r5, r9, r8, asr #16\n"

/* r0 to, r1 factors, r2 from, r3 bytes from pixel to pixel; on the stack half, d, how many fours of channels */
#define PAIRS_FUNCTION(name, factors, pixel, bytes)                                                               \
    ASSEMBLED void name(int16_t *to UNUSED, const int16_t *share UNUSED, const int8_t *from UNUSED,               \
                        int32_t step UNUSED, int32_t half UNUSED, int32_t d UNUSED, int32_t fours UNUSED)         \
    {                                                                                                             \
        __asm__ volatile("push {r4-r11, lr}\n"                                                                    \
                         "ldrd r6, r7, [sp, #36]\n"                                                               \
                         "ldr lr, [sp, #44]\n"                                                                    \
                         "1:\n" factors                                                                           \
                         "mov r12, r2\n" pixel(0) pixel(4) pixel(8) pixel(12)                                     \
                         "adds r0, r0, #32\n"                                                                     \
                         "adds r2, r2, #4*" #bytes "\n"                                                           \
                         "subs lr, lr, #1\n"                                                                      \
                         "bne 1b\n"                                                                               \
                         "pop {r4-r11, pc}\n");                                                                   \
    }
PAIRS_FUNCTION(arm_pairs_halves, FACTORS_HALVES, PAIRS_PIXEL_HALVES, 2)
PAIRS_FUNCTION(arm_pairs_bytes, FACTORS_BYTES, PAIRS_PIXEL_BYTES, 1)

ALWAYS_INLINE void arm_mantissas_pairs(int16_t *to, const void *g, int32_t at, int32_t step, const int16_t *share,
                                       int32_t d, int32_t n, int32_t bytes)
{
    const arm_factor f = arm_factor_of(share, d, bytes);
    const int8_t *from = (const int8_t *)g + at * bytes;
    if (bytes == 2) {
        arm_pairs_halves(to, f.share, from, step * bytes, f.half, f.d, n / 4);
    } else {
        arm_pairs_bytes(to, f.share, from, step * bytes, f.half, f.d, n / 4);
    }
}
#define mantissas_pairs arm_mantissas_pairs

/* one pixel of four channels: r12 from, r3 bytes from pixel to pixel, factors as for PAIRS_PIXEL */
#define SCALED_HALVES                                                                              \
    "ldr r9, [r12, #4]\n ldr r8, [r12]\n add r12, r12, r3\n"                                       \
    SCALE_LOW("r10", "r8", "r4") SCALE_HIGH("r8", "r8", "r4") SCALE_TOGETHER("r10", "r10", "r8")   \
    SCALE_LOW("r11", "r9", "r5") SCALE_HIGH("r9", "r9", "r5") SCALE_TOGETHER("r11", "r11", "r9")
#define SCALED_BYTES                                                                               \
    "ldr r8, [r12]\n add r12, r12, r3\n sxtb16 r9, r8, ror #8\n sxtb16 r8, r8\n"                   \
    SCALE_LOW("r10", "r8", "r4") SCALE_LOW("r11", "r9", "r5") SCALE_TOGETHER("r10", "r10", "r11")  \
    SCALE_HIGH("r8", "r8", "r4") SCALE_HIGH("r9", "r9", "r5") SCALE_TOGETHER("r11", "r8", "r9")

/* r0 to, r1 factors, r2 from, r3 bytes from pixel to pixel; on the stack half, d, pixels, fours of channels */
#define SCALED_FUNCTION(name, factors, pixel, bytes)                                                              \
    ASSEMBLED void name(int16_t *to UNUSED, const int16_t *share UNUSED, const int8_t *from UNUSED,               \
                        int32_t step UNUSED, int32_t half UNUSED, int32_t d UNUSED, int32_t pixels UNUSED,        \
                        int32_t fours UNUSED)                                                                     \
    {                                                                                                             \
        __asm__ volatile("push {r4-r11, lr}\n"                                                                    \
                         "ldrd r6, r7, [sp, #36]\n"                                                               \
                         "1:\n" factors                                                                           \
                         "ldr lr, [sp, #44]\n"                                                                    \
                         "mov r12, r2\n"                                                                          \
                         "2:\n" pixel                                                                             \
                         "strd r10, r11, [r0], #32\n" /* BLOCK_GROUP numbers */                                   \
                         "subs lr, lr, #1\n"                                                                      \
                         "bne 2b\n"                                                                               \
                         "ldrd r8, r9, [sp, #44]\n"                                                               \
                         "sub r0, r0, r8, lsl #5\n"                                                               \
                         "adds r0, r0, #8\n"                                                                      \
                         "adds r2, r2, #4*" #bytes "\n"                                                           \
                         "subs r9, r9, #1\n"                                                                      \
                         "str r9, [sp, #48]\n"                                                                    \
                         "bne 1b\n"                                                                               \
                         "pop {r4-r11, pc}\n");                                                                   \
    }
SCALED_FUNCTION(arm_scaled_halves, FACTORS_HALVES, SCALED_HALVES, 2)
SCALED_FUNCTION(arm_scaled_bytes, FACTORS_BYTES, SCALED_BYTES, 1)

ALWAYS_INLINE void arm_mantissas_scaled(int16_t *to, const void *g, int32_t at, int32_t step, const int16_t *share,
                                        int32_t d, int32_t pixels, int32_t n, int32_t bytes)
{
    const arm_factor f = arm_factor_of(share, d, bytes);
    const int8_t *from = (const int8_t *)g + at * bytes;
    if (n < BLOCK_GROUP) {
        scalar_mantissas_scaled(to, g, at, step, share, d, pixels, n, bytes);
    } else if (bytes == 2) {
        arm_scaled_halves(to, f.share, from, step * bytes, f.half, f.d, pixels, n / 4);
    } else {
        arm_scaled_bytes(to, f.share, from, step * bytes, f.half, f.d, pixels, n / 4);
    }
}
#define mantissas_scaled arm_mantissas_scaled

/* r0 x, r1 where, r2 how many runs, r3 how many fours in each */
ASSEMBLED uint32_t arm_reach_fours(const int32_t *x UNUSED, const int32_t *where UNUSED, int32_t runs UNUSED,
                                   int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r9, lr}\n"
                     "movs r9, #0\n"
                     "1:\n"
                     "ldr r4, [r1], #4\n"
                     "mov lr, r3\n"
                     "add r12, r0, r4, lsl #2\n"
                     "2:\n"
                     "ldm r12!, {r4-r7}\n"
                     "eor r4, r4, r4, asr #31\n eor r5, r5, r5, asr #31\n"
                     "eor r6, r6, r6, asr #31\n eor r7, r7, r7, asr #31\n"
                     "orrs r4, r5\n orrs r6, r7\n orr r9, r9, r4\n orr r9, r9, r6\n"
                     "subs lr, lr, #1\n"
                     "bne 2b\n"
                     "subs r2, r2, #1\n"
                     "bne 1b\n"
                     "mov r0, r9\n"
                     "pop {r4-r9, pc}\n");
}

static inline uint32_t arm_mantissas_reach(const int32_t *x, const int32_t *where, int32_t runs, int32_t n)
{
    const uint32_t fours = n >= 4 ? arm_reach_fours(x, where, runs, n / 4) : 0;
    return n & 3 ? fours | scalar_mantissas_reach(x + (n & ~3), where, runs, n & 3) : fours;
}
#define mantissas_reach arm_mantissas_reach

/* x / 2^d is the upper word of x 2^(32 - d), rounded as that instruction does: halves up; 2 <= d < 32 */
#define PUT_ONE(r, by, bits) "smmulr " r ", " r ", " by "\n ssat " r ", #" bits ", " r "\n"

static inline int arm_puts(int32_t d)
{
    return d > 1 && d < 32;
}

/* r0 to, r1 bytes to the next pixel, r2 x, r3 where, on the stack pixels, 2^(32 - d) */
#define PUT_FUNCTION(name, bits, store)                                                                           \
    ASSEMBLED void name(void *to UNUSED, int32_t step UNUSED, const int32_t *x UNUSED, const int32_t *where UNUSED, \
                        int32_t n UNUSED, int32_t by UNUSED)                                                      \
    {                                                                                                             \
        __asm__ volatile("push {r4-r11, lr}\n"                                                                    \
                         "ldm r3, {r6-r9}\n"                                                                      \
                         "ldrd r3, r5, [sp, #36]\n"                                                               \
                         "add r6, r2, r6, lsl #2\n add r7, r2, r7, lsl #2\n"                                      \
                         "add r8, r2, r8, lsl #2\n add r9, r2, r9, lsl #2\n"                                      \
                         "1:\n"                                                                                   \
                         "ldr r2, [r6], #4\n ldr r4, [r7], #4\n ldr r10, [r8], #4\n ldr r11, [r9], #4\n"          \
                         PUT_ONE("r2", "r5", bits) PUT_ONE("r4", "r5", bits)                                      \
                         PUT_ONE("r10", "r5", bits) PUT_ONE("r11", "r5", bits) store                              \
                         "add r0, r0, r1\n"                                                                       \
                         "subs r3, r3, #1\n"                                                                      \
                         "bne 1b\n"                                                                               \
                         "pop {r4-r11, pc}\n");                                                                   \
    }
PUT_FUNCTION(arm_put_halves, "16",
             "pkhbt r2, r2, r4, lsl #16\n pkhbt r10, r10, r11, lsl #16\n str r2, [r0]\n str r10, [r0, #4]\n")
PUT_FUNCTION(arm_put_bytes, "8", "bfi r2, r4, #8, #8\n bfi r2, r10, #16, #8\n bfi r2, r11, #24, #8\n str r2, [r0]\n")

ALWAYS_INLINE void arm_mantissas_put(void *m, int32_t at, int32_t step, const int32_t *x, const int32_t *where,
                                     int32_t n, int32_t d, int32_t bytes)
{
    void *to = (int8_t *)m + at * bytes;
    if (!arm_puts(d)) {
        scalar_mantissas_put(m, at, step, x, where, n, d, bytes);
    } else if (bytes == 2) {
        arm_put_halves(to, step * bytes, x, where, n, 1 << (32 - d));
    } else {
        arm_put_bytes(to, step * bytes, x, where, n, 1 << (32 - d));
    }
}
#define mantissas_put arm_mantissas_put

/* r0 to, r1 bytes from behind a pixel to the next, r2 x, r3 pixels, on the stack 2^(32 - d) */
#define GROUPS_FUNCTION(name, bits, store)                                                                        \
    ASSEMBLED void name(void *to UNUSED, int32_t skip UNUSED, const int32_t *x UNUSED, int32_t pixels UNUSED,     \
                        int32_t by UNUSED)                                                                        \
    {                                                                                                             \
        __asm__ volatile("push {r4-r8}\n"                                                                         \
                         "ldr r8, [sp, #20]\n"                                                                    \
                         "1:\n"                                                                                   \
                         "mov r12, #4\n"                                                                          \
                         "2:\n"                                                                                   \
                         "ldm r2!, {r4-r7}\n"                                                                     \
                         PUT_ONE("r4", "r8", bits) PUT_ONE("r5", "r8", bits)                                      \
                         PUT_ONE("r6", "r8", bits) PUT_ONE("r7", "r8", bits) store                                \
                         "subs r12, r12, #1\n"                                                                    \
                         "bne 2b\n"                                                                               \
                         "add r0, r0, r1\n"                                                                       \
                         "subs r3, r3, #1\n"                                                                      \
                         "bne 1b\n"                                                                               \
                         "pop {r4-r8}\n"                                                                          \
                         "bx lr\n");                                                                              \
    }
GROUPS_FUNCTION(arm_groups_halves, "16",
                "pkhbt r4, r4, r5, lsl #16\n pkhbt r6, r6, r7, lsl #16\n str r4, [r0], #4\n str r6, [r0], #4\n")
GROUPS_FUNCTION(arm_groups_bytes, "8",
                "bfi r4, r5, #8, #8\n bfi r4, r6, #16, #8\n bfi r4, r7, #24, #8\n str r4, [r0], #4\n")

ALWAYS_INLINE void arm_mantissas_groups(void *m, int32_t at, int32_t step, const int32_t *x, int32_t pixels, int32_t d,
                                        int32_t bytes)
{
    void *to = (int8_t *)m + at * bytes;
    if (!arm_puts(d)) {
        scalar_mantissas_groups(m, at, step, x, pixels, d, bytes);
    } else if (bytes == 2) {
        arm_groups_halves(to, (step - BLOCK_GROUP) * bytes, x, pixels, 1 << (32 - d));
    } else {
        arm_groups_bytes(to, (step - BLOCK_GROUP) * bytes, x, pixels, 1 << (32 - d));
    }
}
#define mantissas_groups arm_mantissas_groups

#endif
