/* windows_dw_f32(dw, g, x, s): the gradient of the weights of a depthwise convolution with 3x3 windows on floats,
 *
 *   dw[u,v,o] = sum over n,i,j of g[n,i,j,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o]
 *
 * a chain of fused multiply-adds in this order; taps outside of x are left out.
 */
#ifndef INSITU_ISA_WINDOWS_H
#define INSITU_ISA_WINDOWS_H

#include "isa/fma.h"
#include "isa/lanes.h"
#include "kernels/shapes.h"

#ifdef INSITU_LANES
#include "isa/lanes/windows.h"
#else

/* tap u, v of output i, j; -1 if it is outside */
static inline int32_t window_at(const conv2d_shape *s, int32_t i, int32_t j, int32_t u, int32_t v)
{
    const int32_t r = i * s->sh + u * s->dh - s->pt, q = j * s->sw + v * s->dw - s->pl;
    return r >= 0 && r < s->h && q >= 0 && q < s->w ? (r * s->w + q) * s->c : -1;
}

static inline void windows_dw_f32(float *dw, const float *g, const float *x, const conv2d_shape *s)
{
    clear_f32(dw, 9 * s->c);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t p = 0; p < s->oh * s->ow; p++, g += s->c) {
            for (int32_t k = 0; k < 9; k++) {
                const int32_t at = window_at(s, p / s->ow, p % s->ow, k / 3, k % 3);
                for (int32_t o = 0; at >= 0 && o < s->c; o++) {
                    dw[k * s->c + o] = fma_f32(g[o], x[at + o], dw[k * s->c + o]);
                }
            }
        }
    }
}

#endif

#endif
