/* quick.h for Cortex-M with the DSP extension, four results at a time: SMMLA, a shift, SSAT. */
#ifndef INSITU_ISA_DSP_QUICK_H
#define INSITU_ISA_DSP_QUICK_H

#include "isa/inline.h"

typedef struct {
    int8_t *y;
    uint8_t *mask;
    int32_t y_row, mask_row, m, add, shift, bit;
} quick_frame;

/* r8-r11 become requantised, but not clamped: r5 the multiplier, r6 what is added, r7 the shift */
#define QUICK_FOUR                                                  \
    "ldm r0!, {r8-r11}\n"                                           \
    "smmla r8, r8, r5, r6\n smmla r9, r9, r5, r6\n"                 \
    "smmla r10, r10, r5, r6\n smmla r11, r11, r5, r6\n"             \
    "asr r8, r8, r7\n asr r9, r9, r7\n asr r10, r10, r7\n asr r11, r11, r7\n"
/* one result to r1, whether it was not clamped to r2: bit lr */
#define QUICK_MASKED(v)                                             \
    "ssat r12, #8, " v "\n"                                         \
    "strb r12, [r1]\n"                                              \
    "eors r12, r12, " v "\n"                                        \
    "ldrb r12, [r2]\n"                                              \
    "it eq\n orreq r12, r12, lr\n"                                  \
    "strb r12, [r2]\n"                                              \
    "add r1, r1, r3\n"                                              \
    "add r2, r2, r4\n"
#define QUICK_ENTER "push {r0, r4-r11, lr}\n mov r12, r2\n ldm r1, {r1-r7, lr}\n str r12, [sp]\n"

/* r0 sums, r1 frame, r2 how many fours */
ASSEMBLED void arm_quick_plain(const int32_t *acc UNUSED, const quick_frame *f UNUSED, int32_t fours UNUSED)
{
    __asm__ volatile(QUICK_ENTER
                     "add r4, r3, r3, lsl #1\n"
                     "1:\n" QUICK_FOUR
                     "ssat r8, #8, r8\n ssat r9, #8, r9\n ssat r10, #8, r10\n ssat r11, #8, r11\n"
                     "strb r8, [r1]\n strb r9, [r1, r3]\n strb r10, [r1, r3, lsl #1]\n strb r11, [r1, r4]\n"
                     "add r1, r1, r3, lsl #2\n"
                     "subs r12, r12, #1\n"
                     "bne 1b\n"
                     "pop {r0, r4-r11, pc}\n");
}

ASSEMBLED void arm_quick_masked(const int32_t *acc UNUSED, const quick_frame *f UNUSED, int32_t fours UNUSED)
{
    __asm__ volatile(QUICK_ENTER
                     "1:\n" QUICK_FOUR
                     QUICK_MASKED("r8") QUICK_MASKED("r9") QUICK_MASKED("r10") QUICK_MASKED("r11")
                     "ldr r12, [sp]\n"
                     "subs r12, r12, #1\n"
                     "str r12, [sp]\n"
                     "bne 1b\n"
                     "pop {r0, r4-r11, pc}\n");
}

static inline quick_frame quick_frame_of(channel_place to, const quick_requant *way)
{
    const quick_frame f = {to.y, to.mask ? to.mask + (to.channel >> 3) : NULL, to.y_row, to.mask_row,
                           way->m, way->add, way->shift, 1 << (to.channel & 7)};
    return f;
}

/* the place of the i-th pixel */
static inline channel_place place_at(channel_place to, int32_t i)
{
    to.y += i * to.y_row;
    to.mask = to.mask ? to.mask + i * to.mask_row : NULL;
    return to;
}

static inline void arm_store_plain(channel_place to, const int32_t *acc, int32_t n, const quick_requant *way)
{
    const quick_frame f = quick_frame_of(to, way);
    if (n >= 4) {
        arm_quick_plain(acc, &f, n / 4);
    }
    scalar_store_plain(place_at(to, n & ~3), acc + (n & ~3), n & 3, way);
}

static inline void arm_store_masked(channel_place to, const int32_t *acc, int32_t n, const quick_requant *way)
{
    const quick_frame f = quick_frame_of(to, way);
    if (n >= 4) {
        arm_quick_masked(acc, &f, n / 4);
    }
    scalar_store_masked(place_at(to, n & ~3), acc + (n & ~3), n & 3, way);
}
#define store_plain arm_store_plain
#define store_masked arm_store_masked

#endif
