/* runs.h for AVX2: masked loads and stores are slow on some machines, so whole runs do without them. */
#ifndef INSITU_ISA_AVX2_RUNS_H
#define INSITU_ISA_AVX2_RUNS_H

#include "isa/avx2/lanes.h"

ALWAYS_INLINE void copy_some_f32(float *to, const float *from, int32_t first, int32_t last, int32_t n)
{
    const uint32_t bits = ((1u << last) - 1u) & ~((1u << first) - 1u);
    if (n == 4 && bits == 15u) {
        _mm_storeu_ps(to, _mm_loadu_ps(from));
    } else if (n == 8 && bits == 255u) {
        _mm256_storeu_ps(to, _mm256_loadu_ps(from));
    } else {
        vf_store(to, lanes(n), vf_load(lanes_of(bits), from));
    }
}

#endif
