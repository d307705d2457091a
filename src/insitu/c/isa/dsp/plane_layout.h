/* How planes.h lays out pixels and weights: planes of 16-bit numbers, pairs of taps. Nothing is summed here.
 */
#ifndef INSITU_ISA_DSP_PLANE_LAYOUT_H
#define INSITU_ISA_DSP_PLANE_LAYOUT_H

#include "isa/dsp/words.h"
#include "isa/inline.h"

/* rows of four channels, four pixels at a time and two where two are left: r0 y, r1 bytes of a plane, r2 x, r3 c; on the
 * stack what is added, fours and twos of a row, rows, and bytes from the end of a row to the next of y and x */
#define PLANES_TWO                                                  \
    "ldr r8, [r2, r3]\n"                                            \
    "ldr r9, [r2]\n"                                                \
    "add r2, r2, r3, lsl #1\n"                                      \
    "pkhbt r10, r9, r8, lsl #16\n"                                  \
    "pkhtb r8, r8, r9, asr #16\n"                                   \
    "sxtab16 r9, r4, r10, ror #8\n sxtab16 r11, r4, r8, ror #8\n"   \
    "sxtab16 r8, r4, r8\n sxtab16 r10, r4, r10\n"                   \
    "str r9, [r0, r1]\n str r8, [r0, r6]\n str r11, [r0, r7]\n str r10, [r0], #4\n"
typedef struct {
    uint32_t add;
    int32_t fours, twos, rows, y_next, x_next;
} planes_frame;

ASSEMBLED void arm_planes_rows(int16_t *y UNUSED, int32_t plane UNUSED, const int8_t *x UNUSED, int32_t c UNUSED,
                               const planes_frame *f UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldr lr, [sp, #36]\n"
                     "ldr r5, [lr, #12]\n"
                     "ldr r4, [lr]\n"
                     "lsl r6, r1, #1\n"
                     "add r7, r6, r1\n"
                     "1:\n"
                     "ldr r12, [lr, #4]\n"
                     "cmp r12, #0\n"
                     "beq 3f\n"
                     "2:\n" PLANES_TWO PLANES_TWO
                     "subs r12, r12, #1\n"
                     "bne 2b\n"
                     "3:\n"
                     "ldr r12, [lr, #8]\n"
                     "cmp r12, #0\n"
                     "beq 4f\n" PLANES_TWO
                     "4:\n"
                     "ldrd r8, r9, [lr, #16]\n"
                     "add r0, r0, r8\n"
                     "add r2, r2, r9\n"
                     "subs r5, r5, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

/* rows may start at odd numbers: words are read and written unaligned */
static inline void arm_planes_widen(int16_t *y, int32_t plane, const int8_t *x, int32_t c, int32_t channels,
                                    int32_t zero, const plane_rows *t)
{
    const int32_t even = channels == PLANES && t->rows > 0 ? t->n & ~1 : 0;
    const planes_frame f = {pair_of(-zero), even / 4, even & 2, t->rows, 2 * (t->y_row - even), t->x_row - even * c};
    plane_rows rest = *t;
    rest.n -= even;
    if (even) {
        arm_planes_rows(y, 2 * plane, x, c, &f);
    }
    if (rest.n) {
        scalar_planes_widen(y + even, plane, x + even * c, c, channels, zero, &rest);
    }
}
#define planes_widen arm_planes_widen

static inline int has_pairs(int32_t kh, int32_t kw)
{
    return (kw == 3 || kw == 5 || kw == 7) && kh <= kw;
}

/* two taps of four channels, and a register that may be used */
#define PLANE_TAPS(first, next, free)                               \
    "pkhbt r10, " first ", " next ", lsl #16\n"                     \
    "pkhtb r12, " next ", " first ", asr #16\n"                     \
    "sxtb16 " free ", r10, ror #8\n sxtb16 lr, r12, ror #8\n"       \
    "sxtb16 r12, r12\n sxtb16 r10, r10\n"                           \
    "str " free ", [r0, r1]\n str r12, [r0, r6]\n str lr, [r0, r7]\n str r10, [r0], #4\n"

/* four channels' taps as (w0,w1), (w1,w2), (w2,w3), ..: r0 to, r1 bytes from channel to channel, r2 w, r3 c; on the
 * stack kh and kw - 1 */
ASSEMBLED void arm_plane_pairs(int16_t *to UNUSED, int32_t size UNUSED, const int8_t *w UNUSED, int32_t c UNUSED,
                               int32_t kh UNUSED, int32_t pairs UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldrd r4, r5, [sp, #36]\n"
                     "lsl r6, r1, #1\n"
                     "add r7, r6, r1\n"
                     "1:\n"
                     "ldr r8, [r2]\n"
                     "mov r11, r5\n"
                     "2:\n"
                     "ldr r9, [r2, r3]\n" PLANE_TAPS("r8", "r9", "r8")
                     "ldr r8, [r2, r3, lsl #1]\n"
                     "add r2, r2, r3, lsl #1\n" PLANE_TAPS("r9", "r8", "r9")
                     "subs r11, r11, #2\n"
                     "bne 2b\n"
                     "add r2, r2, r3\n"
                     "subs r4, r4, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

APART void arm_plane_weights(int16_t *to, int32_t size, const int8_t *w, int32_t c, int32_t channels,
                                     int32_t kh, int32_t kw)
{
    if (!has_pairs(kh, kw)) {
        scalar_plane_weights(to, size, w, c, channels, kh, kw);
    } else if (channels == PLANES) {
        arm_plane_pairs(to, 2 * size, w, c, kh, kw - 1);
    } else {
        for (int32_t i = 0; i < kh * (kw - 1); i++) {
            const int8_t *from = w + (i / (kw - 1) * kw + i % (kw - 1)) * c;
            for (int32_t p = 0; p < channels; p++) {
                to[p * size + 2 * i] = from[p];
                to[p * size + 2 * i + 1] = from[p + c];
            }
        }
    }
}

static inline int32_t arm_plane_row(int32_t kh, int32_t kw)
{
    return has_pairs(kh, kw) ? 2 * (kw - 1) : kw;
}
#define plane_row arm_plane_row
#define plane_weights arm_plane_weights

#endif
