/* The instructions of the Arm DSP extension that the twins use (Cortex-M4, M7, M33). Little endian.
 *
 * Two 16-bit numbers in a word are a pair. In assembler, one line each: compilers do not fold the rotation.
 */
#ifndef INSITU_ISA_DSP_WORDS_H
#define INSITU_ISA_DSP_WORDS_H

#include <stdint.h>

/* a word that need not be aligned: these machines read it in one instruction */
typedef struct __attribute__((packed, may_alias)) {
    uint32_t word;
} any_word;

static inline uint32_t word_at(const void *p)
{
    return ((const any_word *)p)->word;
}

static inline void put_word(void *p, uint32_t word)
{
    ((any_word *)p)->word = word;
}

/* the same number twice */
static inline uint32_t pair_of(int32_t x)
{
    return ((uint32_t)x << 16) | ((uint32_t)x & 0xffffu);
}

/* bytes 0 and 2 of x as numbers, each added to the pair */
static inline uint32_t widen_even(uint32_t add, uint32_t x)
{
    uint32_t y;
    __asm__("sxtab16 %0, %1, %2" : "=r"(y) : "r"(add), "r"(x));
    return y;
}

/* bytes 1 and 3 */
static inline uint32_t widen_odd(uint32_t add, uint32_t x)
{
    uint32_t y;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(y) : "r"(add), "r"(x));
    return y;
}

/* the low halves of two pairs as a pair, the first first; and the high ones */
static inline uint32_t low_halves(uint32_t a, uint32_t b)
{
    uint32_t y;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

static inline uint32_t high_halves(uint32_t a, uint32_t b)
{
    uint32_t y;
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(y) : "r"(b), "r"(a));
    return y;
}

/* acc + x0 w0 + x1 w1; + x1 w0; + x0 w1 */
static inline int32_t multiply_pairs(uint32_t x, uint32_t w, int32_t acc)
{
    int32_t y;
    __asm__("smlad %0, %1, %2, %3" : "=r"(y) : "r"(x), "r"(w), "r"(acc));
    return y;
}

static inline int32_t multiply_high_low(uint32_t x, uint32_t w, int32_t acc)
{
    int32_t y;
    __asm__("smlatb %0, %1, %2, %3" : "=r"(y) : "r"(x), "r"(w), "r"(acc));
    return y;
}

static inline int32_t multiply_low_high(uint32_t x, uint32_t w, int32_t acc)
{
    int32_t y;
    __asm__("smlabt %0, %1, %2, %3" : "=r"(y) : "r"(x), "r"(w), "r"(acc));
    return y;
}

static inline int8_t saturate8(int32_t x)
{
    int32_t y;
    __asm__("ssat %0, #8, %1" : "=r"(y) : "r"(x));
    return (int8_t)y;
}

#endif
