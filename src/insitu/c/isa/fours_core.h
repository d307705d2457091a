/* The definition of fours_f32, and a version for 32 registers that hold a block: see products.h. */
#ifndef INSITU_ISA_FOURS_CORE_H
#define INSITU_ISA_FOURS_CORE_H

#include <stddef.h>
#include <stdint.h>

#include "isa/fma.h"
#include "isa/machine.h"
#include "kernels/linear/products.h"

static inline void scalar_fours_sums(const fours_task *t)
{
    const float *a = t->a;
    float *y = t->y;
    for (int32_t p = 0; p < FOUR * t->blocks; p++, y = (float *)(void *)((char *)y + t->y_row)) {
        const float *from = a + (ptrdiff_t)(p / FOUR * t->depth) * FOUR + p % FOUR;
        for (int32_t j = 0; j < FOUR; j++) {
            float sum = t->go_on ? y[j] : 0.0f;
            for (int32_t k = 0; k < t->depth; k++) {
                sum = fma_f32(from[k * FOUR], t->b[k * FOUR + j], sum);
            }
            y[j] = sum;
        }
    }
}

#if INSITU_DSP_FLOATS
#include "isa/dsp/fours_core.h"
#else
#define fours_sums scalar_fours_sums
#endif

#endif
