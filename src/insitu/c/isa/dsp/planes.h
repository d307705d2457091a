/* planes.h for Cortex-M with the DSP extension: two taps per instruction, four outputs at a time.
 *
 * With a kernel row of 2h + 1 taps, pairs (w0,w1), (w2,w3), .. serve even outputs and pairs (w1,w2), (w3,w4), .. odd
 * ones, so that pairs of pixels are always read at aligned words; the remaining tap is half of a pair. With a stride of
 * two, every output is even. The sums are in assembler for kernels of three, five and seven taps, strides of one and
 * two, and no more rows than taps; anything else is plain C.
 */
#ifndef INSITU_ISA_DSP_PLANES_H
#define INSITU_ISA_DSP_PLANES_H

#include "isa/dsp/plane_layout.h"
#include "isa/quick.h"

/* A line for the assembler, in the order of plane_line: pixels and weights in bytes from their bases, where to start in
 * the code that is unrolled for all rows, and bytes from the last row to the next four outputs. */

/* What the assembler puts on the stack. Sums r4-r7, pixels r0 (where) and r2, r8-r11, weights r1 (where) and r12, lr. */
typedef struct {
    const int16_t *w_now; /* 0: of this line, computed */
    int32_t start[4];     /* 4 */
    uintptr_t code;       /* 20: where to start, of this line */
    uintptr_t way;        /* 24: PLANE_SUMS, .. */
    int8_t *y;            /* 28 */
    int32_t y_row, y_3;   /* 32, 36: bytes from output to output, and three times that */
    quick_requant q;      /* 40 */
    int32_t next;         /* 52, of this line, and */
    const void *y_end;    /* 56 the end of its outputs, computed */
    const plane_line *lines, *lines_end; /* 60, 64 */
    const int16_t *plane, *w; /* 68, 72 */
    int32_t count;        /* 76: bytes of outputs of a line */
    int32_t x_row;        /* 80: bytes */
    uint8_t *mask;        /* 84 */
    int32_t mask_row, mask_3, bit; /* 88, 92, 96 */
} plane_frame;
enum { PLANE_SUMS, PLANE_PLAIN, PLANE_MASKED };

/* Channels, one after the other: the next one's bias and multiplier, bytes from plane to plane and from weights to
 * weights, how many are left. On the stack it follows the frame. */
typedef struct {
    const int32_t *b, *m; /* 100, 104 */
    const int8_t *shift;  /* 108 */
    int32_t twice;        /* 112: 2 y_zero + 1 */
    int32_t plane, w;     /* 116, 120 */
    int32_t left;         /* 124; then the lines, the first y and mask, 128, 132 and 136 */
} plane_source;

/* r1 y, r2 y_row, r8 y_3, then how to requantise; r12 and lr next and y_end */
#define PLANE_REQUANT                                               \
    "add r12, sp, #28\n"                                            \
    "ldm.w r12, {r1, r2, r8-r12, lr}\n"                             \
    "smmla r4, r4, r9, r10\n smmla r5, r5, r9, r10\n"               \
    "smmla r6, r6, r9, r10\n smmla r7, r7, r9, r10\n"               \
    "asr r4, r4, r11\n asr r5, r5, r11\n asr r6, r6, r11\n asr r7, r7, r11\n" \
    "add r0, r0, r12\n"
/* an output to `y`, whether it was not clamped to `mask` */
#define PLANE_OUT(v, y, mask)                                       \
    "ssat lr, #8, " v "\n"                                          \
    "strb lr, " y "\n"                                              \
    "cmp lr, " v "\n"                                               \
    "ldrb lr, " mask "\n"                                           \
    "it eq\n orreq lr, lr, r12\n"                                   \
    "strb lr, " mask "\n"

/* the next channel: how it is requantised, where its sums start; unless it has no quick way */
#define PLANE_CHANNEL                                               \
    "ldrd r4, r5, [sp, #100]\n"                                     \
    "ldrd r6, r7, [sp, #108]\n"                                     \
    "ldrsb r12, [r6], #1\n"                                         \
    "mvn r12, r12\n"                                                \
    "sub r9, r12, #1\n"                                             \
    "cmp r9, #21\n"                                                 \
    "bhi 10f\n"                                                     \
    "ldr r10, [r5], #4\n"                                           \
    "lsl r11, r7, r9\n"                                             \
    "add r0, sp, #40\n"                                             \
    "stm r0, {r10-r12}\n"                                           \
    "ldr r8, [r4], #4\n"                                            \
    "strd r8, r8, [sp, #4]\n strd r8, r8, [sp, #12]\n"              \
    "strd r4, r5, [sp, #100]\n"                                     \
    "str r6, [sp, #108]\n"

/* Line after line, four outputs at a time; sums of rows jump back to where the outputs go: sums at 4, bytes at 5, with a
 * mask at 6. Without a source (null) the frame's channel. Returns how many channels are left: the next has no quick
 * way. */
ASSEMBLED int32_t arm_plane_run(const plane_frame *f UNUSED, const plane_source *source UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "sub sp, sp, #140\n"
                     "mov r12, sp\n"
                     "mov r11, r1\n"
                     "ldm r0!, {r1-r9}\n stm r12!, {r1-r9}\n"
                     "mov r10, r7\n" /* way */
                     "mov lr, r8\n" /* y */
                     "ldm r0!, {r1-r8}\n stm r12!, {r1-r8}\n"
                     "ldm r0!, {r1-r8}\n stm r12!, {r1-r8}\n"
                     "mov r3, r4\n"
                     "mov r9, r5\n" /* mask */
                     "adr.w r1, 5f\n"
                     "cmp r10, #1\n"
                     "beq 8f\n"
                     "adr.w r1, 6f\n"
                     "bgt 8f\n"
                     "adr.w r1, 4f\n"
                     "8:\n"
                     "orr r1, r1, #1\n"
                     "str r1, [sp, #24]\n"
                     "str r11, [sp, #124]\n"
                     "mov r1, lr\n"
                     "cmp r11, #0\n"
                     "beq 0f\n"
                     "ldm r11, {r4-r8, r10, r11}\n stm r12!, {r4-r8, r10, r11}\n"
                     "ldr r4, [sp, #60]\n"
                     "str r4, [sp, #128]\n"
                     "strd r1, r9, [sp, #132]\n"
                     "7:\n" PLANE_CHANNEL
                     "0:\n"
                     "ldrd r2, r12, [sp, #60]\n"
                     "cmp r2, r12\n"
                     "beq 9f\n"
                     "ldm r2!, {r4-r7}\n"
                     "str r2, [sp, #60]\n"
                     "ldrd r8, r9, [sp, #68]\n"
                     "ldr r10, [sp, #76]\n"
                     "add r0, r8, r4\n"
                     "add r5, r5, r9\n"
                     "add r8, r1, r10\n"
                     "str r5, [sp, #0]\n"
                     "str r6, [sp, #20]\n"
                     "strd r7, r8, [sp, #52]\n"
                     "1:\n"
                     "ldm.w sp, {r1, r4-r7, pc}\n"
                     ".p2align 2\n"
                     "4:\n"
                     "ldr.w r1, [sp, #28]\n"
                     "stm r1!, {r4-r7}\n"
                     "ldrd r12, lr, [sp, #52]\n"
                     "add r0, r0, r12\n"
                     "str r1, [sp, #28]\n"
                     "cmp r1, lr\n"
                     "blo 1b\n"
                     "mov r1, lr\n" /* sums may have gone past the end of a line */
                     "str r1, [sp, #28]\n"
                     "b 0b\n"
                     ".p2align 2\n"
                     "5:\n" PLANE_REQUANT
                     "ssat r4, #8, r4\n ssat r5, #8, r5\n ssat r6, #8, r6\n ssat r7, #8, r7\n"
                     "strb r4, [r1]\n strb r5, [r1, r2]\n strb r6, [r1, r2, lsl #1]\n strb r7, [r1, r8]\n"
                     "add r1, r1, r2, lsl #2\n"
                     "str r1, [sp, #28]\n"
                     "cmp r1, lr\n"
                     "blo 1b\n"
                     "b 0b\n"
                     ".p2align 2\n"
                     "6:\n" PLANE_REQUANT
                     "add r12, sp, #84\n"
                     "ldm r12, {r9-r12}\n"
                     PLANE_OUT("r4", "[r1]", "[r9]") PLANE_OUT("r5", "[r1, r2]", "[r9, r10]")
                     PLANE_OUT("r6", "[r1, r2, lsl #1]", "[r9, r10, lsl #1]") PLANE_OUT("r7", "[r1, r8]", "[r9, r11]")
                     "add r9, r9, r10, lsl #2\n"
                     "str r9, [sp, #84]\n"
                     "add r1, r1, r2, lsl #2\n"
                     "ldr lr, [sp, #56]\n"
                     "str r1, [sp, #28]\n"
                     "cmp r1, lr\n"
                     "blo 1b\n"
                     "ldrd r2, r12, [sp, #60]\n"
                     "cmp r2, r12\n"
                     "bne 0b\n"
                     "ldr r4, [sp, #96]\n"
                     "ldr r5, [sp, #136]\n"
                     "lsl r4, r4, #1\n"
                     "cmp r4, #256\n"
                     "itt eq\n moveq r4, #1\n addeq r5, r5, #1\n"
                     "str r4, [sp, #96]\n"
                     "str r5, [sp, #136]\n"
                     "str r5, [sp, #84]\n"
                     "9:\n"
                     "ldrd r4, r5, [sp, #68]\n"
                     "ldrd r6, r7, [sp, #116]\n"
                     "add r4, r4, r6\n add r5, r5, r7\n"
                     "strd r4, r5, [sp, #68]\n"
                     "ldrd r6, r7, [sp, #124]\n"
                     "ldr r1, [sp, #132]\n"
                     "str r7, [sp, #60]\n"
                     "add r1, r1, #1\n"
                     "str r1, [sp, #132]\n"
                     "str r1, [sp, #28]\n"
                     "subs r6, r6, #1\n"
                     "str r6, [sp, #124]\n"
                     "bgt 7b\n"
                     "10:\n"
                     "ldr r0, [sp, #124]\n"
                     "add sp, sp, #140\n"
                     "pop {r4-r11, pc}\n");
}

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

#define PLANE_3_1 "ldm.w r0, {r8-r10}\n" PLANE_WEIGHT PLANE_FIRST(8, 9, 10) PLANE_LAST(9, 10)
#define PLANE_5_1 "ldm.w r0, {r8-r11}\n" PLANE_WEIGHT PLANE_FIRST(8, 9, 10) PLANE_WEIGHT PLANE_NEXT(9, 10, 11) \
    PLANE_LAST(10, 11)
#define PLANE_7_1 "ldm.w r0, {r2, r8-r11}\n" PLANE_WEIGHT PLANE_FIRST(2, 8, 9) PLANE_WEIGHT PLANE_NEXT(8, 9, 10) \
    PLANE_WEIGHT PLANE_NEXT(9, 10, 11) PLANE_LAST(10, 11)
#define PLANE_3_2 "ldm.w r0, {r2, r8-r11}\n" PLANE_WEIGHT PLANE_FOUR(2, 8, 9, 10) PLANE_ENDS(8, 9, 10, 11)
#define PLANE_5_2 "ldm.w r0, {r2, r8-r11}\n" PLANE_WEIGHT PLANE_FOUR(2, 8, 9, 10) "ldr.w r2, [r0, #20]\n" \
    PLANE_WEIGHT PLANE_FOUR(8, 9, 10, 11) PLANE_ENDS(9, 10, 11, 2)
#define PLANE_7_2 "ldm.w r0, {r2, r8-r11}\n" PLANE_WEIGHT PLANE_FOUR(2, 8, 9, 10) "ldr.w r2, [r0, #20]\n" \
    PLANE_WEIGHT PLANE_FOUR(8, 9, 10, 11) "ldr.w r8, [r0, #24]\n" \
    PLANE_WEIGHT PLANE_FOUR(9, 10, 11, 2) PLANE_ENDS(10, 11, 2, 8)

#define PLANE_FUNCTION(name, rows)                                                                        \
    ASSEMBLED void name(void)                                                                             \
    {                                                                                                     \
        __asm__ volatile(rows "ldr pc, [sp, #24]\n");                                                     \
    }
/* this many rows, one below the other */
#define PLANE_ROWS_2(row) row PLANE_DOWN row
#define PLANE_ROWS_3(row) PLANE_ROWS_2(row) PLANE_DOWN row
#define PLANE_ROWS_5(row) PLANE_ROWS_3(row) PLANE_DOWN PLANE_ROWS_2(row)
#define PLANE_ROWS_7(row) PLANE_ROWS_5(row) PLANE_DOWN PLANE_ROWS_2(row)
PLANE_FUNCTION(arm_plane_3_1, PLANE_ROWS_3(PLANE_3_1))
PLANE_FUNCTION(arm_plane_3_2, PLANE_ROWS_3(PLANE_3_2))
PLANE_FUNCTION(arm_plane_5_1, PLANE_ROWS_5(PLANE_5_1))
PLANE_FUNCTION(arm_plane_5_2, PLANE_ROWS_5(PLANE_5_2))
PLANE_FUNCTION(arm_plane_7_1, PLANE_ROWS_7(PLANE_7_1))
PLANE_FUNCTION(arm_plane_7_2, PLANE_ROWS_7(PLANE_7_2))

/* by taps and stride: the code of all rows, and the bytes of one row of it */
static const struct {
    void (*rows)(void);
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
        const uintptr_t all = (uintptr_t)arm_plane_ways[(t->kw - 3) / 2][t->step - 1].rows;
        const int32_t bytes = arm_plane_ways[(t->kw - 3) / 2][t->step - 1].bytes, rows = line->rows;
        const int32_t code = (int32_t)(all + (uintptr_t)((t->kw - rows) * bytes));
        const plane_line now = {2 * line->x, 2 * line->first * t->w_row, code, 8 * t->step - (rows - 1) * 2 * t->x_row};
        *line = now;
    }
}
#define plane_prepare arm_plane_prepare

/* the frame of channel p, for outputs that lie `row` bytes apart */
APART void plane_frame_of(plane_frame *f, const plane_task *t, const plane_channels *c, int32_t p, int32_t row)
{
    f->start[0] = f->start[1] = f->start[2] = f->start[3] = c->b ? c->b[p] : 0;
    f->y_row = row;
    f->y_3 = 3 * row;
    f->lines = t->lines;
    f->lines_end = t->lines_end;
    f->plane = t->plane + p * c->plane;
    f->w = t->w + p * c->weights;
    f->count = t->count * row;
    f->x_row = 2 * t->x_row;
}

/* channels from p on that are requantised quickly; a multiple of four outputs. Returns where it stopped. */
static inline int32_t arm_plane_quick(plane_frame *f, const channel_place *to, const plane_channels *c, int32_t p,
                                      const requant *q)
{
    const int32_t channel = to->channel + p;
    const plane_source source = {c->b + p, q->m + channel, q->shift + channel, 2 * q->y_zero + 1, 2 * c->plane,
                                 2 * c->weights, c->count - p};
    f->way = to->mask ? PLANE_MASKED : PLANE_PLAIN;
    f->y = to->y + p;
    if (to->mask) {
        f->mask = to->mask + (channel >> 3);
        f->mask_row = to->mask_row;
        f->mask_3 = 3 * to->mask_row;
        f->bit = 1 << (channel & 7);
    }
    return c->count - arm_plane_run(f, &source);
}

/* results that are not stored immediately: their sums are made first, then stored */
APART void arm_plane_frames(const plane_task *t, const channel_place *to, const plane_channels *c, const requant *q,
                            int32_t *acc)
{
    const int32_t quick = c->b && q->step && t->count % 4 == 0 && requant_is_quick(q);
    plane_frame f;
    for (int32_t p = 0; p < c->count; p++) {
        if (quick) {
            plane_frame_of(&f, t, c, p, to->y_row);
            p = arm_plane_quick(&f, to, c, p, q);
        }
        if (p < c->count) {
            const channel_place at = {to->y + p, to->mask, to->y_row, to->mask_row, to->channel + p};
            plane_frame_of(&f, t, c, p, sizeof(int32_t));
            f.way = PLANE_SUMS;
            f.y = (int8_t *)(void *)acc;
            arm_plane_run(&f, NULL);
            requant_channel_s8(&at, acc, (int32_t)(t->lines_end - t->lines) * t->count, q);
        }
    }
}

static inline void arm_plane_outputs(const plane_task *t, const channel_place *to, const plane_channels *c,
                                     const requant *q, int32_t *acc)
{
    if (arm_plane_way(t)) {
        arm_plane_frames(t, to, c, q, acc);
    } else {
        scalar_plane_outputs(t, to, c, q, acc);
    }
}
#define plane_outputs arm_plane_outputs

#endif
