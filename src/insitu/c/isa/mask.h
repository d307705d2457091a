/* y[i] = g[i] where bit i of the mask is one, else 0: c elements, c bits from a byte on. */
#ifndef INSITU_ISA_MASK_H
#define INSITU_ISA_MASK_H

#include "isa/inline.h"
#include "isa/lanes.h"
#include "isa/machine.h"

#ifdef INSITU_LANES
#include "isa/lanes/mask.h"
#elif INSITU_DSP
#include "isa/dsp/mask.h"
#else
static inline void mask_row_f32(float *y, const float *g, const uint8_t *mask, int32_t c)
{
    for (int32_t i = 0; i < c; i++) {
        y[i] = (mask[i >> 3] >> (i & 7)) & 1 ? g[i] : 0.0f;
    }
}
#endif

#endif
