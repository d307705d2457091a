/* INSITU_ALIGNED, before a large constant: if vectors are as wide as a cache line, they should not straddle two. */
#ifndef INSITU_ISA_ALIGN_H
#define INSITU_ISA_ALIGN_H

#include "isa/machine.h"

#if INSITU_AVX2
#define INSITU_ALIGNED __attribute__((aligned(64)))
#else
#define INSITU_ALIGNED
#endif

#endif
