/* What the Helium twins share: four outputs as a vector. Cortex-M55, integer vectors alone: its vectors of floats flush
 * what is smaller than normal to zero, and gradients would not be the same bytes as elsewhere.
 */
#ifndef INSITU_ISA_HELIUM_H
#define INSITU_ISA_HELIUM_H

#include <arm_mve.h>

#include "isa/inline.h"

enum { HELIUM_WORDS = 4, HELIUM_HALVES = 8, HELIUM_BYTES = 16 };

/* 0, step, 2 step, 3 step */
ALWAYS_INLINE uint32x4_t helium_steps(int32_t step)
{
    return vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)step);
}

ALWAYS_INLINE int32x4_t helium_within(int32x4_t v)
{
    return vminq_s32(vmaxq_s32(v, vdupq_n_s32(-128)), vdupq_n_s32(127));
}

#endif
