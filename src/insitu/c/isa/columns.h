/* Columns of bytes as rows of pairs: what isa/pairs.h wants of a matrix that lies the other way round.
 *
 *   pairs_columns   four neighbouring columns of n bytes, each `row` bytes after the last, minus zero: two tasks'
 *                   weights, one after the other; columns that are not there are zeros
 *   pairs_column    one column, as the first or second row of a task's weights
 */
#ifndef INSITU_ISA_COLUMNS_H
#define INSITU_ISA_COLUMNS_H

#include "isa/pairs.h"

enum { PAIRS_COLUMNS = 4 };

/* where number i of row r (of `rows`) lies */
static inline int32_t pairs_place(int32_t i, int32_t r, int32_t rows)
{
    return ((i >> 2) * 2 * rows + (i & 1) * rows + r) * 2 + (i >> 1 & 1);
}

static inline void scalar_pairs_column(int16_t *to, int32_t r, const int8_t *x, int32_t row, int32_t zero, int32_t n)
{
    for (int32_t i = 0; i < n; i++, x += row) {
        to[pairs_place(i, r, PAIRS_OUTPUTS)] = (int16_t)(*x - zero);
    }
    for (int32_t i = n; i < pairs_length(n); i++) {
        to[pairs_place(i, r, PAIRS_OUTPUTS)] = 0;
    }
}

#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && !defined(INSITU_SCALAR)
#include "isa/arm_dsp.h" /* where there is Helium, pairs.h does without */

/* r0 to, r1 x, r2 row, r3 what is added to both numbers of a pair; on the stack how many fours of numbers */
ASSEMBLED void arm_column_fours(int16_t *to UNUSED, const int8_t *x UNUSED, int32_t row UNUSED, uint32_t add UNUSED,
                                int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r7, lr}\n"
                     "ldr r12, [sp, #20]\n"
                     "add lr, r2, r2, lsl #1\n"
                     "1:\n"
                     "ldrb r4, [r1]\n ldrb r5, [r1, r2]\n ldrb r6, [r1, r2, lsl #1]\n ldrb r7, [r1, lr]\n"
                     "add r1, r1, r2, lsl #2\n"
                     "pkhbt r4, r4, r6, lsl #16\n pkhbt r5, r5, r7, lsl #16\n"
                     "sxtab16 r4, r3, r4\n sxtab16 r5, r3, r5\n"
                     "str r4, [r0], #8\n str r5, [r0], #8\n"
                     "subs r12, r12, #1\n"
                     "bne 1b\n"
                     "pop {r4-r7, pc}\n");
}

/* what is left of n goes the slow way */
APART void arm_pairs_column(int16_t *to, int32_t r, const int8_t *x, int32_t row, int32_t zero, int32_t n)
{
    const int32_t whole = n & ~3;
    if (whole) {
        arm_column_fours(to + 2 * r, x, row, pair_of(-zero), whole / 4);
    }
    if (n - whole) {
        scalar_pairs_column(to + PAIRS_OUTPUTS * whole, r, x + whole * row, row, zero, n - whole);
    }
}
#define pairs_column arm_pairs_column
#else
#define pairs_column scalar_pairs_column
#endif

static inline void scalar_pairs_columns(int16_t *to, const int8_t *x, int32_t row, int32_t cols, int32_t zero,
                                        int32_t n)
{
    for (int32_t j = 0; j < PAIRS_COLUMNS; j++) {
        int16_t *half = to + j / PAIRS_OUTPUTS * PAIRS_OUTPUTS * pairs_length(n);
        if (j < cols) {
            pairs_column(half, j % PAIRS_OUTPUTS, x + j, row, zero, n);
        }
        for (int32_t i = 0; j >= cols && i < pairs_length(n); i++) {
            half[pairs_place(i, j % PAIRS_OUTPUTS, PAIRS_OUTPUTS)] = 0;
        }
    }
}

#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && !defined(INSITU_SCALAR)
/* two rows of two columns each, as words of two outputs and, r1 bytes on, of the other two */
#define COLUMNS_TWO(turn)                                                                        \
    "sxtab16 r10, r4, r6" turn "\n sxtab16 r11, r4, r8" turn "\n"                                \
    "pkhbt r12, r10, r11, lsl #16\n pkhtb lr, r11, r10, asr #16\n"                               \
    "str lr, [r0, r1]\n str r12, [r0], #4\n"
#define COLUMNS_NEXT(turn)                                                                       \
    "sxtab16 r10, r4, r7" turn "\n sxtab16 r11, r4, r9" turn "\n"                                \
    "pkhbt r12, r10, r11, lsl #16\n pkhtb lr, r11, r10, asr #16\n"                               \
    "str lr, [r0, r1]\n str r12, [r0], #4\n"

/* Four bytes of each of four rows are sixteen numbers: every second byte is widened at once, then the columns of two
 * rows are put together. r0 to, r1 bytes to the other two columns, r2 x, r3 row; on the stack what is added, fours. */
ASSEMBLED void arm_columns_fours(int16_t *to UNUSED, int32_t other UNUSED, const int8_t *x UNUSED, int32_t row UNUSED,
                                 uint32_t add UNUSED, int32_t fours UNUSED)
{
    __asm__ volatile("push {r4-r11, lr}\n"
                     "ldrd r4, r5, [sp, #36]\n"
                     "1:\n"
                     "ldr r6, [r2]\n ldr r7, [r2, r3]\n add r2, r2, r3, lsl #1\n"
                     "ldr r8, [r2]\n ldr r9, [r2, r3]\n add r2, r2, r3, lsl #1\n"
                     COLUMNS_TWO("") COLUMNS_TWO(", ror #8") COLUMNS_NEXT("") COLUMNS_NEXT(", ror #8")
                     "subs r5, r5, #1\n"
                     "bne 1b\n"
                     "pop {r4-r11, pc}\n");
}

/* what is left of n goes the slow way */
static inline void arm_pairs_columns(int16_t *to, const int8_t *x, int32_t row, int32_t cols, int32_t zero, int32_t n)
{
    if (cols < PAIRS_COLUMNS || n % 4) {
        scalar_pairs_columns(to, x, row, cols, zero, n);
    } else {
        arm_columns_fours(to, 4 * n, x, row, pair_of(-zero), n / 4);
    }
}
#define pairs_columns arm_pairs_columns
#else
#define pairs_columns scalar_pairs_columns
#endif

#endif
