/* The vector functions of AVX-512 for bytes and halves of words: see avx2/intrinsics.h. */
#ifndef INSITU_ISA_AVX512_BYTES_H
#define INSITU_ISA_AVX512_BYTES_H

#include "isa/avx512/intrinsics.h"
#include "isa/machine.h"

#if INSITU_GCC_PARTS
#include <avx512vlintrin.h>
#include <avx512bwintrin.h>
#include <avx512vlbwintrin.h>
#include <avx512vnniintrin.h>
#endif

#endif
