/* mask.h on vectors of floats. */
#ifndef INSITU_ISA_LANES_MASK_H
#define INSITU_ISA_LANES_MASK_H

#include "isa/lanes.h"

static inline void mask_row_f32(float *y, const float *g, const uint8_t *mask, int32_t c)
{
    int32_t i = 0;
    for (; i + LANES <= c; i += LANES, mask += LANES / 8) {
        const uint32_t bits = mask[0] | (LANES > 8 ? (uint32_t)mask[LANES / 8 - 1] << 8 : 0u);
        vf_put(y + i, vf_load(lanes_of(bits), g + i));
    }
    for (int32_t k = 0; i + k < c; k++) {
        y[i + k] = (mask[k >> 3] >> (k & 7)) & 1 ? g[i + k] : 0.0f;
    }
}

#endif
