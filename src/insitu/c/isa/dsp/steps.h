/* steps.h for Cortex-M with the DSP extension: four numbers at a time.
 *
 * A weight and its fraction with their highest bits flipped are the two bytes of an unsigned number: w + r/256 in units
 * of 1/256, plus 128.5. So steps are subtracted from such numbers, two per word, and the results are the new bytes:
 * nothing is rounded or reassembled.
 */
#ifndef INSITU_ISA_DSP_STEPS_H
#define INSITU_ISA_DSP_STEPS_H

#define STEP_SIZE(x) "eor r12, " x ", " x ", asr #31\n sub " x ", r12, " x ", asr #31\n"

/* r0 m, r1 end, r2 bytes from the end of a run to the next, r3 n: four numbers in r4-r7 at a time, then one in r4 */
#define STEP_RUNS(each)                                                                            \
    "1:\n"                                                                                         \
    "subs r8, r3, #4\n"                                                                            \
    "blt 3f\n"                                                                                     \
    "2:\n"                                                                                         \
    "ldm r0!, {r4-r7}\n" each("r4") each("r5") each("r6") each("r7")                               \
    "subs r8, r8, #4\n"                                                                            \
    "bge 2b\n"                                                                                     \
    "3:\n"                                                                                         \
    "adds r8, r8, #4\n"                                                                            \
    "beq 5f\n"                                                                                     \
    "4:\n"                                                                                         \
    "ldr r4, [r0], #4\n" each("r4")                                                                \
    "subs r8, r8, #1\n"                                                                            \
    "bne 4b\n"                                                                                     \
    "5:\n"                                                                                         \
    "add r0, r0, r2\n"                                                                             \
    "cmp r0, r1\n"                                                                                 \
    "blo 1b\n"

#define STEP_SIZE_TO(x) STEP_SIZE(x) "orr r9, r9, " x "\n"
ASSEMBLED uint32_t arm_sizes(const int32_t *m UNUSED, const int32_t *end UNUSED, int32_t skip UNUSED, int32_t n UNUSED)
{
    __asm__ volatile("push {r4-r9}\n"
                     "mov r9, #0\n" STEP_RUNS(STEP_SIZE_TO)
                     "mov r0, r9\n"
                     "pop {r4-r9}\n"
                     "bx lr\n");
}

/* on the stack d */
#define STEP_SQUARE_TO(x) STEP_SIZE(x) "lsr " x ", " x ", r11\n umlal r9, r10, " x ", " x "\n"
ASSEMBLED uint64_t arm_squares(const int32_t *m UNUSED, const int32_t *end UNUSED, int32_t skip UNUSED,
                               int32_t n UNUSED, int32_t d UNUSED)
{
    __asm__ volatile("push {r4-r11}\n"
                     "ldr r11, [sp, #32]\n"
                     "mov r9, #0\n"
                     "mov r10, #0\n" STEP_RUNS(STEP_SQUARE_TO)
                     "mov r0, r9\n"
                     "mov r1, r10\n"
                     "pop {r4-r11}\n"
                     "bx lr\n");
}

/* the step of x, from the upper word of its product: r4 factor, r5 half, r6 shift */
#define STEP_UPPER_OF(x) "smmla " x ", " x ", r4, r5\n asr " x ", " x ", r6\n"
/* no more than STEP_BITS, and STEP_UP extra bits below */
#define STEP_WIDE(x) "ssat " x ", #20, " x "\n lsl " x ", " x ", #11\n"
#define STEP_TURN(x) "eor " x ", " x ", #0x80808080\n"

/* r0 w, r1 r, r2 m, r3 how many fours, on the stack factor, half and shift, whose sign says that numbers are to be
 * wide; how many fours are left when one has a number that saturates, or comes close: a highest byte of 0, 1 or 255, or
 * more than two bytes. SEL takes bytes 0 and 2 of its first word and bytes 1 and 3 of its second. */
ASSEMBLED int32_t arm_residual_fours(int8_t *w UNUSED, int8_t *r UNUSED, const int32_t *m UNUSED, int32_t fours UNUSED,
                                     int32_t by UNUSED, int32_t half UNUSED, int32_t shift UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldrd r4, r5, [sp, #36]\n"
                     "ldr r6, [sp, #44]\n"
                     "mov r7, #0x50000\n"
                     "msr APSR_g, r7\n"
                     "mov r7, #0xfcfcfcfc\n"
                     "1:\n"
                     "ldr r8, [r0]\n"
                     "ldr r9, [r1]\n" STEP_TURN("r8") STEP_TURN("r9")
                     "lsl r10, r8, #8\n"
                     "sel r10, r9, r10\n" /* numbers 0 and 2 */
                     "lsr r9, r9, #8\n"
                     "sel r11, r9, r8\n" /* numbers 1 and 3 */
                     "ldm r2!, {r8, r9, r12, lr}\n"
                     "cmp r6, #0\n"
                     "bmi 3f\n"
                     "4:\n"
                     STEP_UPPER_OF("r8") STEP_UPPER_OF("r9") STEP_UPPER_OF("r12") STEP_UPPER_OF("lr")
                     "rsb r12, r12, r10, lsr #16\n"
                     "rsb lr, lr, r11, lsr #16\n"
                     "uxth r10, r10\n"
                     "sub r8, r10, r8\n"
                     "uxth r11, r11\n"
                     "sub r9, r11, r9\n"
                     "pkhbt r10, r8, r12, lsl #16\n"
                     "pkhbt r11, r9, lr, lsl #16\n"
                     "orr r8, r8, r9\n"
                     "orr r8, r8, r12\n"
                     "orr r8, r8, lr\n"
                     "lsr r9, r10, #8\n"
                     "sel r9, r9, r11\n" /* weights */
                     "lsl r11, r11, #8\n"
                     "sel r11, r10, r11\n" /* fractions */
                     "sub r12, r9, #0x02020202\n"
                     "uqsub8 r12, r12, r7\n"
                     "orrs r12, r12, r8, lsr #16\n"
                     "bne 2f\n" STEP_TURN("r9") STEP_TURN("r11")
                     "str r9, [r0], #4\n"
                     "str r11, [r1], #4\n"
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "2:\n"
                     "mov r0, r3\n"
                     "pop {r4-r11, pc}\n"
                     "3:\n" STEP_WIDE("r8") STEP_WIDE("r9") STEP_WIDE("r12") STEP_WIDE("lr")
                     "b 4b\n");
}

static inline uint32_t arm_step_sizes(const int32_t *m, const int32_t *end, int32_t row, int32_t n)
{
    return arm_sizes(m, end, (row - n) * (int32_t)sizeof(int32_t), n);
}

static inline uint64_t arm_step_squares(const int32_t *m, const int32_t *end, int32_t row, int32_t n, int32_t d)
{
    return arm_squares(m, end, (row - n) * (int32_t)sizeof(int32_t), n, d);
}

static inline int32_t arm_step_residual(int8_t *w, int8_t *r, const int32_t *m, int32_t n, int32_t whole, int32_t shift)
{
    const int32_t wide = shift < STEP_UPPER, more = wide ? shift + STEP_UP : shift;
    const int32_t by = more < STEP_UPPER + 30 ? more - STEP_UPPER : 30; /* from there on, the result is zero */
    const int32_t how = (by + 1) | (wide ? INT32_MIN : 0);              /* a shift by its lowest byte */
    int32_t saturated = 0, i = 0;
    while (n - i >= 4) {
        const int32_t left = arm_residual_fours(w + i, r + i, m + i, (n - i) / 4, whole * 128, 1 << by, how);
        i = (n - i) / 4 * 4 + i - 4 * left;
        saturated += left ? step_residual_apart(w + i, r + i, m + i, 1, 4, whole, shift) : 0;
        i += left ? 4 : 0;
    }
    return i < n ? saturated + step_residual_apart(w + i, r + i, m + i, 1, n - i, whole, shift) : saturated;
}
#define step_sizes arm_step_sizes
#define step_squares arm_step_squares
#define step_residual arm_step_residual

#endif
