/* planes.h for Cortex-M with the DSP extension: two taps an instruction, four outputs at a time.
 *
 * With a kernel row of 2h + 1 taps, pairs (w0,w1), (w2,w3), .. serve even outputs and pairs (w1,w2), (w3,w4), .. odd
 * ones, so that pairs of pixels are always read where a word starts; the tap that is left over is half of a pair. With
 * a stride of two every output is even. The sums are in assembler: kernels of three, five and seven taps, strides of
 * one and two, not more rows than taps; any other is plain C.
 */
#ifndef INSITU_ISA_ARM_PLANES_H
#define INSITU_ISA_ARM_PLANES_H

#include "isa/arm_dsp.h"
#include "isa/inline.h"

/* two pixels of four channels at a time: r0 y, r1 bytes of a plane, r2 x, r3 c; on the stack what is added, and the count */
ASSEMBLED void arm_planes_pairs(int16_t *y UNUSED, int32_t plane UNUSED, const int8_t *x UNUSED, int32_t c UNUSED,
                                uint32_t add UNUSED, int32_t pairs UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldrd r4, r5, [sp, #36]\n"
                     "lsl r6, r1, #1\n"
                     "add r7, r6, r1\n"
                     "1:\n"
                     "ldr r8, [r2]\n"
                     "ldr r9, [r2, r3]\n"
                     "add r2, r2, r3, lsl #1\n"
                     "sxtab16 r10, r4, r8\n sxtab16 r11, r4, r9\n"
                     "sxtab16 r8, r4, r8, ror #8\n sxtab16 r9, r4, r9, ror #8\n"
                     "pkhtb r12, r11, r10, asr #16\n"
                     "pkhbt r10, r10, r11, lsl #16\n"
                     "pkhtb lr, r9, r8, asr #16\n"
                     "pkhbt r8, r8, r9, lsl #16\n"
                     "str r12, [r0, r6]\n str lr, [r0, r7]\n str r8, [r0, r1]\n str r10, [r0], #4\n"
                     "subs r5, r5, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

/* rows may start at odd numbers: words are read and written anywhere */
static inline void arm_planes_widen(int16_t *y, int32_t plane, const int8_t *x, int32_t c, int32_t channels,
                                    int32_t zero, int32_t n)
{
    const int32_t pairs = channels == PLANES ? n / 2 : 0;
    if (pairs) {
        arm_planes_pairs(y, 2 * plane, x, c, pair_of(-zero), pairs);
    }
    scalar_planes_widen(y + 2 * pairs, plane, x + 2 * pairs * c, c, channels, zero, n - 2 * pairs);
}
#define planes_widen arm_planes_widen

static inline int has_pairs(int32_t kh, int32_t kw)
{
    return (kw == 3 || kw == 5 || kw == 7) && kh <= kw;
}

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
                     "sxtb16 r9, r8\n"
                     "sxtb16 r10, r8, ror #8\n"
                     "mov r11, r5\n"
                     "2:\n"
                     "ldr r8, [r2, r3]\n"
                     "add r2, r2, r3\n"
                     "sxtb16 r12, r8\n"
                     "sxtb16 r8, r8, ror #8\n"
                     "pkhbt lr, r9, r12, lsl #16\n"
                     "pkhtb r9, r12, r9, asr #16\n"
                     "str r9, [r0, r6]\n"
                     "pkhbt r9, r10, r8, lsl #16\n"
                     "pkhtb r10, r8, r10, asr #16\n"
                     "str r9, [r0, r1]\n"
                     "str r10, [r0, r7]\n"
                     "str lr, [r0], #4\n"
                     "mov r9, r12\n"
                     "mov r10, r8\n"
                     "subs r11, r11, #1\n"
                     "bne 2b\n"
                     "add r2, r2, r3\n"
                     "subs r4, r4, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

static inline void arm_plane_weights(int16_t *to, int32_t size, const int8_t *w, int32_t c, int32_t channels,
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

/* A line as the assembler wants it, in bytes: where to start in the code that is written out for all rows, weights and
 * pixels from their bases, and from behind the last row to the next four outputs. */
typedef struct {
    int32_t skip, w, x, next;
} arm_line;

/* What the assembler puts on the stack, behind what it works out for a line. Sums r4-r7, pixels r2, r8-r11, weights
 * r12, lr. */
typedef struct {
    int32_t *acc;
    int32_t start[4];
    const plane_line *lines, *lines_end;
    const int16_t *plane, *w;
    int32_t count; /* bytes of sums */
    int32_t x_row; /* bytes */
} plane_frame;

/* sp: 0 code, 4 weights, 8 next, 12 end of the line's sums; 16 acc, 20 start, 36 lines, 40 their end, 44 plane, 48 w,
 * 52 count, 56 code of all rows */
#define PLANE_ENTER                                                 \
    "push {r4-r11, lr}\n"                                           \
    "sub sp, sp, #60\n"                                             \
    "ldm r0!, {r1-r10}\n"                                           \
    "adr.w r11, 2f\n"                                               \
    "orr r11, r11, #1\n"                                            \
    "add r12, sp, #16\n"                                            \
    "stm r12, {r1-r11}\n"                                           \
    "ldr r3, [r0]\n"                                                \
    "0:\n"                                                          \
    "ldr r12, [sp, #36]\n"                                          \
    "ldm r12!, {r4-r7}\n"                                           \
    "str r12, [sp, #36]\n"                                          \
    "ldrd r8, r9, [sp, #44]\n"                                      \
    "ldrd r10, r11, [sp, #52]\n"                                    \
    "ldr r12, [sp, #16]\n"                                          \
    "add r0, r8, r6\n"                                              \
    "add r4, r4, r11\n"                                             \
    "add r5, r5, r9\n"                                              \
    "add r12, r12, r10\n"                                           \
    "strd r4, r5, [sp, #0]\n"                                       \
    "strd r7, r12, [sp, #8]\n"                                      \
    "1:\n"                                                          \
    "add r12, sp, #20\n"                                            \
    "ldm r12, {r4-r7}\n"                                            \
    "ldr r1, [sp, #4]\n"                                            \
    "ldr pc, [sp, #0]\n"                                            \
    ".p2align 2\n"                                                  \
    "2:\n"
#define PLANE_LEAVE                                                 \
    "ldrd r2, r12, [sp, #8]\n"                                      \
    "add r0, r0, r2\n"                                              \
    "ldr r2, [sp, #16]\n"                                           \
    "stm r2!, {r4-r7}\n"                                            \
    "str r2, [sp, #16]\n"                                           \
    "cmp r2, r12\n"                                                 \
    "blo 1b\n"                                                      \
    "str r12, [sp, #16]\n"                                          \
    "ldrd r2, r12, [sp, #36]\n"                                     \
    "cmp r2, r12\n"                                                 \
    "bne 0b\n"                                                      \
    "add sp, sp, #60\n"                                             \
    "pop {r4-r11, pc}\n"
#define PLANE_WEIGHT "ldrd r12, lr, [r1], #8\n"
#define PLANE_DOWN "add.w r0, r0, r3\n"
/* both numbers of pixels p with both of weights w; the high with the low; the low with the high */
#define PLANE_BOTH(y, p, w) "smlad r" #y ", r" #p ", " w ", r" #y "\n"
#define PLANE_HIGH(y, p) "smlatb r" #y ", r" #p ", r12, r" #y "\n"
#define PLANE_LOW(y, p) "smlabt r" #y ", r" #p ", lr, r" #y "\n"
/* stride one, pixels p, q, r: the first pair of taps, the next, the last tap */
#define PLANE_FIRST(p, q, r)                                        \
    PLANE_BOTH(4, p, "r12") PLANE_BOTH(6, q, "r12") PLANE_HIGH(5, p) PLANE_HIGH(7, q) \
    PLANE_BOTH(5, q, "lr") PLANE_BOTH(7, r, "lr")
#define PLANE_NEXT(p, q, r) PLANE_BOTH(4, p, "r12") PLANE_BOTH(6, q, "r12") PLANE_BOTH(5, q, "lr") PLANE_BOTH(7, r, "lr")
#define PLANE_LAST(p, q) PLANE_LOW(4, p) PLANE_LOW(6, q)
/* stride two: a pair of taps, the last tap */
#define PLANE_FOUR(p, q, r, s) PLANE_BOTH(4, p, "r12") PLANE_BOTH(5, q, "r12") PLANE_BOTH(6, r, "r12") PLANE_BOTH(7, s, "r12")
#define PLANE_ENDS(p, q, r, s) PLANE_LOW(4, p) PLANE_LOW(5, q) PLANE_LOW(6, r) PLANE_LOW(7, s)

#define PLANE_3_1 "ldm.w r0, {r8-r10}\n" PLANE_WEIGHT PLANE_FIRST(8, 9, 10) PLANE_LAST(9, 10) PLANE_DOWN
#define PLANE_5_1 "ldm.w r0, {r8-r11}\n" PLANE_WEIGHT PLANE_FIRST(8, 9, 10) PLANE_WEIGHT PLANE_NEXT(9, 10, 11) \
    PLANE_LAST(10, 11) PLANE_DOWN
#define PLANE_7_1 "ldm.w r0, {r2, r8-r11}\n" PLANE_WEIGHT PLANE_FIRST(2, 8, 9) PLANE_WEIGHT PLANE_NEXT(8, 9, 10) \
    PLANE_WEIGHT PLANE_NEXT(9, 10, 11) PLANE_LAST(10, 11) PLANE_DOWN
#define PLANE_3_2 "ldm.w r0, {r2, r8-r11}\n" PLANE_WEIGHT PLANE_FOUR(2, 8, 9, 10) PLANE_ENDS(8, 9, 10, 11) PLANE_DOWN
#define PLANE_5_2 "ldm.w r0, {r2, r8-r11}\n" PLANE_WEIGHT PLANE_FOUR(2, 8, 9, 10) "ldr.w r2, [r0, #20]\n" \
    PLANE_WEIGHT PLANE_FOUR(8, 9, 10, 11) PLANE_ENDS(9, 10, 11, 2) PLANE_DOWN
#define PLANE_7_2 "ldm.w r0, {r2, r8-r11}\n" PLANE_WEIGHT PLANE_FOUR(2, 8, 9, 10) "ldr.w r2, [r0, #20]\n" \
    PLANE_WEIGHT PLANE_FOUR(8, 9, 10, 11) "ldr.w r8, [r0, #24]\n" \
    PLANE_WEIGHT PLANE_FOUR(9, 10, 11, 2) PLANE_ENDS(10, 11, 2, 8) PLANE_DOWN

#define PLANE_FUNCTION(name, rows)                                                                        \
    ASSEMBLED void name(const plane_frame *f UNUSED)      \
    {                                                                                                     \
        __asm__ volatile(PLANE_ENTER rows PLANE_LEAVE);                                                   \
    }
PLANE_FUNCTION(arm_plane_3_1, PLANE_3_1 PLANE_3_1 PLANE_3_1)
PLANE_FUNCTION(arm_plane_3_2, PLANE_3_2 PLANE_3_2 PLANE_3_2)
PLANE_FUNCTION(arm_plane_5_1, PLANE_5_1 PLANE_5_1 PLANE_5_1 PLANE_5_1 PLANE_5_1)
PLANE_FUNCTION(arm_plane_5_2, PLANE_5_2 PLANE_5_2 PLANE_5_2 PLANE_5_2 PLANE_5_2)
PLANE_FUNCTION(arm_plane_7_1, PLANE_7_1 PLANE_7_1 PLANE_7_1 PLANE_7_1 PLANE_7_1 PLANE_7_1 PLANE_7_1)
PLANE_FUNCTION(arm_plane_7_2, PLANE_7_2 PLANE_7_2 PLANE_7_2 PLANE_7_2 PLANE_7_2 PLANE_7_2 PLANE_7_2)

/* by taps and stride: the function, and how many bytes one row of it takes */
static const struct {
    void (*sums)(const plane_frame *);
    int32_t bytes;
} arm_plane_ways[3][2] = {{{arm_plane_3_1, 44}, {arm_plane_3_2, 44}},
                          {{arm_plane_5_1, 64}, {arm_plane_5_2, 68}},
                          {{arm_plane_7_1, 84}, {arm_plane_7_2, 92}}};

static inline int arm_plane_way(const plane_task *t)
{
    return has_pairs(t->kh, t->kw) && t->step <= 2;
}

static inline void arm_plane_prepare(plane_line *lines, const plane_task *t)
{
    for (plane_line *line = lines; line < t->lines_end && arm_plane_way(t); line++) {
        const int32_t bytes = arm_plane_ways[(t->kw - 3) / 2][t->step - 1].bytes;
        const plane_line now = {(t->kw - line->rows) * bytes, 2 * line->first * t->w_row, 2 * line->x,
                                8 * t->step - line->rows * 2 * t->x_row};
        *line = now;
    }
}
#define plane_prepare arm_plane_prepare

static inline void arm_plane_sums(int32_t *acc, const plane_task *t)
{
    if (!arm_plane_way(t)) {
        scalar_plane_sums(acc, t);
        return;
    }
    const plane_frame f = {acc, {t->start, t->start, t->start, t->start}, t->lines, t->lines_end, t->plane, t->w,
                           4 * t->count, 2 * t->x_row};
    arm_plane_ways[(t->kw - 3) / 2][t->step - 1].sums(&f);
}
#define plane_sums arm_plane_sums

#endif
