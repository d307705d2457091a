/* dx[n,r,q,c] = sum over i,j and the m outputs o of channel c of g[n,i,j,o] w[u,v,o] where tap u,v lies on r,q,
 * with w = scale[o] * the integer weight: the scale goes into g. Scratch: one float per output channel.
 * Each dx is one chain of multiply-adds, over i, then j, then o. For m > 1. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"

static void tap_dx(float *dx, const float *g, const int8_t *w, const conv2d_shape *s)
{
    const int32_t m = s->o / s->c;
    for (int32_t o = 0; o < s->o; o++) {
        dx[o / m] = fma_f32(g[o], (float)w[o], dx[o / m]);
    }
}

void depthwise2d_wide_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, const conv2d_shape *s,
                       void *scratch)
{
    float *scaled = scratch;
    clear_f32(dx, s->n * s->h * s->w * s->c);
    for (int32_t n = 0; n < s->n; n++, dx += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            const tap_range rows = taps_inside(i * s->sh - s->pt, s->kh, s->dh, s->h);
            for (int32_t j = 0; j < s->ow; j++, g += s->o) {
                const tap_range cols = taps_inside(j * s->sw - s->pl, s->kw, s->dw, s->w);
                for (int32_t o = 0; o < s->o; o++) {
                    scaled[o] = g[o] * scale[o];
                }
                for (int32_t u = rows.first; u < rows.last; u++) {
                    for (int32_t v = cols.first; v < cols.last; v++) {
                        const int32_t r = i * s->sh - s->pt + u * s->dh, q = j * s->sw - s->pl + v * s->dw;
                        tap_dx(dx + (r * s->w + q) * s->c, scaled, w + (u * s->kw + v) * s->o, s);
                    }
                }
            }
        }
    }
}
