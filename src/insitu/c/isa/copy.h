/* copy_run(to, from, n): n bytes, which may lie anywhere but not overlap. */
#ifndef INSITU_ISA_COPY_H
#define INSITU_ISA_COPY_H

#include <stdint.h>

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) && !defined(INSITU_SCALAR)
#include "isa/arm_dsp.h"

/* in words; the last word may be partly the one before it again */
static inline void copy_run(int8_t *to, const int8_t *from, int32_t n)
{
    int32_t i = 0;
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
static inline void copy_run(int8_t *to, const int8_t *from, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}
#endif

#endif
