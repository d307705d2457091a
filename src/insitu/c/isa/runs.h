/* copy_some_f32(to, from, first, last, n): to[i] = from[i] for first <= i < last, 0 for all other i < n; n is at most
 * RUN_MOST. Only those elements of `from` are read. */
#ifndef INSITU_ISA_RUNS_H
#define INSITU_ISA_RUNS_H

#include "isa/inline.h"
#include "isa/lanes.h"
#include "isa/machine.h"

enum { RUN_MOST = 8 };

#if INSITU_AVX512_FLOATS
#include "isa/avx512/runs.h"
#elif INSITU_AVX2_FLOATS
#include "isa/avx2/runs.h"
#else

ALWAYS_INLINE void copy_some_f32(float *to, const float *from, int32_t first, int32_t last, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = i >= first && i < last ? from[i] : 0.0f;
    }
}

#endif

#endif
