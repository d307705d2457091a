/* runs.h for AVX-512: vectors no wider than needed, because those across two lines of the cache are slow. */
#ifndef INSITU_ISA_AVX512_RUNS_H
#define INSITU_ISA_AVX512_RUNS_H

#include "isa/avx512/bytes.h"

ALWAYS_INLINE void copy_some_f32(float *to, const float *from, int32_t first, int32_t last, int32_t n)
{
    const __mmask8 some = (__mmask8)(((1u << last) - 1u) & ~((1u << first) - 1u)), all = (__mmask8)((1u << n) - 1u);
    if (n == 4) {
        _mm_storeu_ps(to, _mm_maskz_loadu_ps(some, from));
    } else {
        _mm256_mask_storeu_ps(to, all, _mm256_maskz_loadu_ps(some, from));
    }
}

#endif
