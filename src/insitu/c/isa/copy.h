/* copy_run(to, from, n): n bytes, which may lie anywhere but not overlap. */
#ifndef INSITU_ISA_COPY_H
#define INSITU_ISA_COPY_H

#include <stdint.h>

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) && !defined(INSITU_SCALAR)
#include "isa/arm_dsp.h"

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
#else
static inline void copy_run(void *y, const void *x, int32_t n)
{
    char *to = y;
    const char *from = x;
    for (int32_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}
#endif

#endif
