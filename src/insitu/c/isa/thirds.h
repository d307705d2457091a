/* thirds_f32(y, x, pixels): y[p,k] = x[k,p] for k < 3, three planes of pixels to pixels of three floats. Not in place. */
#ifndef INSITU_ISA_THIRDS_H
#define INSITU_ISA_THIRDS_H

#include <stddef.h>
#include <stdint.h>

#include "isa/machine.h"

/* the pixels from p on */
static inline void thirds_rest(float *restrict y, const float *restrict x, int32_t p, int32_t pixels)
{
    for (; p < pixels; p++) {
        y[3 * p] = x[p];
        y[3 * p + 1] = x[pixels + p];
        y[3 * p + 2] = x[2 * pixels + p];
    }
}

#if INSITU_AVX2
#include "isa/avx2/thirds.h"
#else
#define thirds_f32(y, x, pixels) thirds_rest(y, x, 0, pixels)
#endif

#endif
