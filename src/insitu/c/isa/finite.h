/* finite_row_f32(x, n): are all of them finite? */
#ifndef INSITU_ISA_FINITE_H
#define INSITU_ISA_FINITE_H

#include <stdint.h>

#include "isa/fma.h"
#include "isa/machine.h"

/* In integers, because cores without floating point must do it, too: adding one to the exponent of an infinity or a NaN
 * carries into the sign. */
static inline int32_t scalar_finite_row_f32(const float *x, int32_t n)
{
    uint32_t seen = 0;
    for (int32_t i = 0; i < n; i++) {
        union {
            float f;
            uint32_t u;
        } v;
        v.f = x[i];
        seen |= (v.u & 0x7fffffffu) + 0x00800000u;
    }
    return seen >> 31 == 0;
}

#if INSITU_ARM_FLOATS
#include "isa/dsp/finite.h"
#else
#define finite_row_f32 scalar_finite_row_f32
#endif

#endif
