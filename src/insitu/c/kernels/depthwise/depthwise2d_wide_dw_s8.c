/* dw[u,v,o] = sum over n,i,j of g[n,i,j,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o / m]
 * where x = scale * (the integer - zero).
 * Each dw is one chain of multiply-adds, over n, then i, then j. For m > 1. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"

static void tap_dw(float *dw, const float *g, const int8_t *x, int32_t zero, const conv2d_shape *s)
{
    const int32_t m = s->o / s->c;
    for (int32_t o = 0; o < s->o; o++) {
        dw[o] = fma_f32(g[o], (float)(x[o / m] - zero), dw[o]);
    }
}

void depthwise2d_wide_dw_s8(float *dw, const float *g, const int8_t *x, float scale, int32_t zero, const conv2d_shape *s)
{
    clear_f32(dw, s->kh * s->kw * s->o);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            const tap_range rows = taps_inside(i * s->sh - s->pt, s->kh, s->dh, s->h);
            for (int32_t j = 0; j < s->ow; j++, g += s->o) {
                const tap_range cols = taps_inside(j * s->sw - s->pl, s->kw, s->dw, s->w);
                for (int32_t u = rows.first; u < rows.last; u++) {
                    for (int32_t v = cols.first; v < cols.last; v++) {
                        const int32_t r = i * s->sh - s->pt + u * s->dh, q = j * s->sw - s->pl + v * s->dw;
                        tap_dw(dw + (u * s->kw + v) * s->o, g, x + (r * s->w + q) * s->c, zero, s);
                    }
                }
            }
        }
    }
    scale_f32(dw, scale, s->kh * s->kw * s->o);
}
