/* Bytes that may lie anywhere but not overlap.
 *
 *   copy_run(to, from, n)                 n bytes
 *   copy_rows(to, from, n, rows, step)    `rows` runs of n bytes, `step` apart in `from`, one after the other in `to`
 */
#ifndef INSITU_ISA_COPY_H
#define INSITU_ISA_COPY_H

#include <stdint.h>

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) && !defined(INSITU_SCALAR)
#include "isa/arm_dsp.h"
#include "isa/inline.h"

/* in words; the last word may be partly the one before it again */
static inline void copy_run(void *y, const void *x, int32_t n)
{
    char *to = y;
    const char *from = x;
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        put_word(to + i, word_at(from + i));
        put_word(to + i + 4, word_at(from + i + 4));
        put_word(to + i + 8, word_at(from + i + 8));
        put_word(to + i + 12, word_at(from + i + 12));
    }
    for (; i + 4 <= n; i += 4) {
        put_word(to + i, word_at(from + i));
    }
    if (n >= 4) {
        put_word(to + n - 4, word_at(from + n - 4));
        return;
    }
    for (; i < n; i++) {
        to[i] = from[i];
    }
}
/* r0 to, r1 from, r2 n (four at least), r3 rows (one at least), step on the stack */
ASSEMBLED void arm_copy_rows(int8_t *to UNUSED, const int8_t *from UNUSED, int32_t n UNUSED, int32_t rows UNUSED,
                             int32_t step UNUSED)
{
    __asm__ volatile("push {r4-r7}\n"
                     "ldr r12, [sp, #16]\n"
                     "1:\n"
                     "mov r4, r1\n"
                     "subs r5, r2, #4\n"
                     "2:\n"
                     "ldr r6, [r4], #4\n"
                     "str r6, [r0], #4\n"
                     "subs r5, r5, #4\n"
                     "bge 2b\n"
                     "ldr r6, [r4, r5]\n"
                     "str r6, [r0, r5]\n"
                     "add r0, r0, r5\n"
                     "add r0, r0, #4\n"
                     "add r1, r1, r12\n"
                     "subs r3, r3, #1\n"
                     "bne 1b\n"
                     "pop {r4-r7}\n"
                     "bx lr\n");
}

static inline void copy_rows(int8_t *to, const int8_t *from, int32_t n, int32_t rows, int32_t step)
{
    if (n >= 4 && rows > 0) {
        arm_copy_rows(to, from, n, rows, step);
        return;
    }
    for (; rows > 0; rows--, to += n, from += step) {
        copy_run(to, from, n);
    }
}
#else
static inline void copy_run(void *y, const void *x, int32_t n)
{
    char *to = y;
    const char *from = x;
    for (int32_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

static inline void copy_rows(int8_t *to, const int8_t *from, int32_t n, int32_t rows, int32_t step)
{
    for (; rows > 0; rows--, to += n, from += step) {
        copy_run(to, from, n);
    }
}
#endif

#endif
