/* The vector functions of AVX2 and FMA. gcc takes 0.4 s to read all of immintrin.h, longer than most kernels take to
 * compile: only the parts in use are read, in the order in which they build on each other. */
#ifndef INSITU_ISA_AVX2_INTRINSICS_H
#define INSITU_ISA_AVX2_INTRINSICS_H

#include "isa/machine.h"

#if INSITU_GCC_PARTS
#define _IMMINTRIN_H_INCLUDED /* by which its parts know that they may be read */
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <fmaintrin.h>
#else
#include <immintrin.h>
#endif

#endif
