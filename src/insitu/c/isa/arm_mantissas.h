/* mantissas.h for Cortex-M with the DSP extension: one multiply-add rounds, one shift ends it, PKHBT puts two together. */
#ifndef INSITU_ISA_ARM_MANTISSAS_H
#define INSITU_ISA_ARM_MANTISSAS_H

#include "isa/arm_dsp.h"

static inline int32_t multiply_low(uint32_t x, uint32_t w, int32_t acc)
{
    int32_t y;
    __asm__("smlabb %0, %1, %2, %3" : "=r"(y) : "r"(x), "r"(w), "r"(acc));
    return y;
}

static inline int32_t multiply_high(uint32_t x, uint32_t w, int32_t acc)
{
    int32_t y;
    __asm__("smlatt %0, %1, %2, %3" : "=r"(y) : "r"(x), "r"(w), "r"(acc));
    return y;
}

/* Factors of four channels, in the order their mantissas are read in: two-byte ones lie as pairs 0,1 and 2,3, one-byte
 * ones are widened to pairs 0,2 and 1,3. A distance at which everything is 0 becomes factors of 0. */
typedef struct {
    uint32_t a, b;
    int32_t half, d;
} arm_factors;

ALWAYS_INLINE arm_factors arm_factors_of(const int16_t *share, int32_t d, int32_t bytes)
{
    const int32_t by = bytes == 2 ? d : d - 8;
    const uint32_t low = word_at(share), high = word_at(share + 2);
    const arm_factors none = {0, 0, 0, 1};
    const arm_factors some = {bytes == 2 ? low : low_halves(low, high), bytes == 2 ? high : high_halves(low, high),
                              1 << (by < 31 ? by - 1 : 0), by};
    return by < 31 ? some : none;
}

/* four channels of one pixel */
typedef struct {
    int32_t k0, k1, k2, k3;
} arm_four;

ALWAYS_INLINE arm_four arm_four_at(const int8_t *from, arm_factors f, int32_t bytes)
{
    const uint32_t x = word_at(from), y = bytes == 2 ? word_at(from + 4) : widen_odd(0, x);
    const uint32_t first = bytes == 2 ? x : widen_even(0, x);
    const int32_t p = multiply_low(first, f.a, f.half) >> f.d, q = multiply_high(first, f.a, f.half) >> f.d;
    const int32_t r = multiply_low(y, f.b, f.half) >> f.d, s = multiply_high(y, f.b, f.half) >> f.d;
    const arm_four wide = {p, q, r, s}, narrow = {p, r, q, s};
    return bytes == 2 ? wide : narrow;
}

ALWAYS_INLINE void arm_mantissas_pairs(int16_t *to, const void *g, int32_t at, int32_t step, const int16_t *share,
                                       int32_t d, int32_t bytes)
{
    const int8_t *from = (const int8_t *)g + at * bytes;
    const arm_factors f = arm_factors_of(share, d, bytes);
    uint32_t *words = (uint32_t *)(void *)to;
    UNROLL
    for (int32_t r = 0; r < PAIRS_PIXELS; r++, from += step * bytes) {
        const arm_four v = arm_four_at(from, f, bytes);
        words[r] = low_halves((uint32_t)v.k0, (uint32_t)v.k2);
        words[PAIRS_PIXELS + r] = low_halves((uint32_t)v.k1, (uint32_t)v.k3);
    }
}
#define mantissas_pairs arm_mantissas_pairs

ALWAYS_INLINE void arm_mantissas_turned(int16_t *to, const void *g, int32_t at, int32_t step, int32_t share, int32_t d,
                                        int32_t bytes)
{
    const int16_t shares[MANTISSAS] = {(int16_t)share, (int16_t)share, (int16_t)share, (int16_t)share};
    const int8_t *from = (const int8_t *)g + at * bytes;
    const arm_factors f = arm_factors_of(shares, d, bytes);
    uint32_t *words = (uint32_t *)(void *)to;
    UNROLL
    for (int32_t i = 0; i < 2; i++, from += step * bytes, words += PAIRS_PIXELS) {
        const arm_four v = arm_four_at(from, f, bytes), u = arm_four_at(from + 2 * step * bytes, f, bytes);
        words[0] = low_halves((uint32_t)v.k0, (uint32_t)u.k0);
        words[1] = low_halves((uint32_t)v.k1, (uint32_t)u.k1);
        words[2] = low_halves((uint32_t)v.k2, (uint32_t)u.k2);
        words[3] = low_halves((uint32_t)v.k3, (uint32_t)u.k3);
    }
}
#define mantissas_turned arm_mantissas_turned

/* rows may start at odd numbers: words are written anywhere */
ALWAYS_INLINE void arm_mantissas_planes(int16_t *to, int32_t plane, const void *g, int32_t at, int32_t step,
                                        const int16_t *share, int32_t d, int32_t n, int32_t bytes)
{
    const int8_t *from = (const int8_t *)g + at * bytes;
    const arm_factors f = arm_factors_of(share, d, bytes);
    int16_t *const end = to + (n & ~1);
    for (; to < end; to += 2, from += 2 * step * bytes) {
        const arm_four v = arm_four_at(from, f, bytes), u = arm_four_at(from + step * bytes, f, bytes);
        put_word(to, low_halves((uint32_t)v.k0, (uint32_t)u.k0));
        put_word(to + plane, low_halves((uint32_t)v.k1, (uint32_t)u.k1));
        put_word(to + 2 * plane, low_halves((uint32_t)v.k2, (uint32_t)u.k2));
        put_word(to + 3 * plane, low_halves((uint32_t)v.k3, (uint32_t)u.k3));
    }
    if (n & 1) {
        scalar_mantissas_planes(to, plane, from, 0, step, share, d, 1, bytes);
    }
}
#define mantissas_planes arm_mantissas_planes

/* r0 x, r1 how many fours */
ASSEMBLED uint32_t arm_reach_fours(const int32_t *x UNUSED, int32_t fours UNUSED)
{
    __asm__ volatile("push {r4, r5}\n"
                     "movs r12, #0\n"
                     "1:\n"
                     "ldm r0!, {r2, r3, r4, r5}\n"
                     "eor r2, r2, r2, asr #31\n eor r3, r3, r3, asr #31\n"
                     "eor r4, r4, r4, asr #31\n eor r5, r5, r5, asr #31\n"
                     "orrs r2, r3\n orrs r4, r5\n orr r12, r12, r2\n orr r12, r12, r4\n"
                     "subs r1, r1, #1\n"
                     "bne 1b\n"
                     "mov r0, r12\n"
                     "pop {r4, r5}\n"
                     "bx lr\n");
}

static inline uint32_t arm_mantissas_reach(const int32_t *x, int32_t n)
{
    const uint32_t fours = n >= 4 ? arm_reach_fours(x, n / 4) : 0;
    return n & 3 ? fours | scalar_mantissas_reach(x + (n & ~3), n & 3) : fours;
}
#define mantissas_reach arm_mantissas_reach

/* the carry of a shift is the bit that rounds */
#define PUT_ONE(r, bits) "asrs " r ", " r ", r5\n adc " r ", " r ", #0\n ssat " r ", #" bits ", " r "\n"

/* r0 to, r1 bytes to the next pixel, r2 four pointers, r3 pixels, on the stack d */
#define PUT_FUNCTION(name, bits, store)                                                                           \
    ASSEMBLED void name(void *to UNUSED, int32_t step UNUSED, const int32_t *const *x UNUSED, int32_t n UNUSED,   \
                        int32_t d UNUSED)                                                                         \
    {                                                                                                             \
        __asm__ volatile("push {r4-r11, lr}\n"                                                                    \
                         "ldr r5, [sp, #36]\n"                                                                    \
                         "ldm r2, {r6-r9}\n"                                                                      \
                         "1:\n"                                                                                   \
                         "ldr r2, [r6], #4\n ldr r4, [r7], #4\n ldr r10, [r8], #4\n ldr r11, [r9], #4\n"          \
                         PUT_ONE("r2", bits) PUT_ONE("r4", bits) PUT_ONE("r10", bits) PUT_ONE("r11", bits) store  \
                         "add r0, r0, r1\n"                                                                       \
                         "subs r3, r3, #1\n"                                                                      \
                         "bne 1b\n"                                                                               \
                         "pop {r4-r11, pc}\n");                                                                   \
    }
PUT_FUNCTION(arm_put_halves, "16",
             "pkhbt r2, r2, r4, lsl #16\n pkhbt r10, r10, r11, lsl #16\n str r2, [r0]\n str r10, [r0, #4]\n")
PUT_FUNCTION(arm_put_bytes, "8", "strb r2, [r0]\n strb r4, [r0, #1]\n strb r10, [r0, #2]\n strb r11, [r0, #3]\n")

ALWAYS_INLINE void arm_mantissas_put(void *m, int32_t at, int32_t step, const int32_t *const *x, int32_t n, int32_t d,
                                     int32_t bytes)
{
    void *to = (int8_t *)m + at * bytes;
    if (d > 31) {
        scalar_mantissas_put(m, at, step, x, n, d, bytes);
    } else if (bytes == 2) {
        arm_put_halves(to, step * bytes, x, n, d);
    } else {
        arm_put_bytes(to, step * bytes, x, n, d);
    }
}
#define mantissas_put arm_mantissas_put

#endif
