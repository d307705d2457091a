/* What sixteen channels of one pixel gather from a rectangle of others, each a chain of fused multiply-adds:
 *   y[c] = scale[c] * sum over i < rows, j < cols of g[i,j,c] w[i,j,c]
 * g[i,j] starts i g_row + j g_step floats from g, w[i,j] i w_row + j w_step from w. Fewer channels are plain C.
 *
 *   gather_prepare   the steps in the form for a machine's own code
 *   gather_weights   sixteen channels' taps as floats, the last first
 */
#ifndef INSITU_ISA_GATHER_H
#define INSITU_ISA_GATHER_H

#include <stddef.h>
#include <stdint.h>

#include "isa/fma.h"
#include "isa/machine.h"

enum { GATHER = 16 };

/* Assembler depends on this layout. */
typedef struct {
    const float *g, *w;
    int32_t rows, cols, g_step, g_row, w_step, w_row;
    float *y;
    const float *scale;
} gather_task;

static inline void scalar_gather_prepare(gather_task *t, int32_t channels)
{
    (void)t;
    (void)channels;
}

static inline void scalar_gather_weights(float *to, const int8_t *w, int32_t channels, int32_t taps, int32_t c)
{
    for (int32_t t = taps - 1; t >= 0; t--, to += GATHER) {
        for (int32_t k = 0; k < channels; k++) {
            to[k] = (float)w[t * c + k];
        }
    }
}

static inline void scalar_gather(const gather_task *t, int32_t channels)
{
    for (int32_t c = 0; c < channels; c++) {
        float sum = 0.0f;
        for (int32_t i = 0; i < t->rows; i++) {
            const float *g = t->g + i * t->g_row + c, *w = t->w + i * t->w_row + c;
            for (int32_t j = 0; j < t->cols; j++) {
                sum = fma_f32(g[j * t->g_step], w[j * t->w_step], sum);
            }
        }
        t->y[c] = sum * t->scale[c];
    }
}

#if INSITU_DSP_FLOATS
#include "isa/dsp/gather.h"
#else
#define gather scalar_gather
#define gather_prepare scalar_gather_prepare
#define gather_weights scalar_gather_weights
#endif

#endif
