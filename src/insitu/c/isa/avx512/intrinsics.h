/* The vector functions of AVX-512F: see avx2/intrinsics.h. */
#ifndef INSITU_ISA_AVX512_INTRINSICS_H
#define INSITU_ISA_AVX512_INTRINSICS_H

#include "isa/avx2/intrinsics.h"
#include "isa/machine.h"

#if INSITU_GCC_PARTS
#include <avx512fintrin.h>
#endif

#endif
