/* dx[n,r,q,c] = sum over i,j,o of g[n,i,j,o] w[o,u,v,c] where tap u,v of output i,j lies on r,q,
 * with w = scale[o] * the integer weight: the scale goes into g.
 * Each dx is one chain of multiply-adds, over i, then j, then o. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"

static void conv2d_dx_tap(float *dx, const float *g, const int8_t *w, const float *scale, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups, row = s->kh * s->kw * ci;
    for (int32_t o = 0; o < s->o; o++) {
        if (g[o] != 0.0f) {
            fma_row_s8(dx + o / og * ci, g[o] * scale[o], w + o * row, 0, ci);
        }
    }
}

void conv2d_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups;
    clear_f32(dx, s->n * s->h * s->w * s->c);
    for (int32_t n = 0; n < s->n; n++, dx += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            const tap_range rows = taps_inside(i * s->sh - s->pt, s->kh, s->dh, s->h);
            for (int32_t j = 0; j < s->ow; j++, g += s->o) {
                const tap_range cols = taps_inside(j * s->sw - s->pl, s->kw, s->dw, s->w);
                for (int32_t u = rows.first; u < rows.last; u++) {
                    for (int32_t v = cols.first; v < cols.last; v++) {
                        const int32_t r = i * s->sh - s->pt + u * s->dh, q = j * s->sw - s->pl + v * s->dw;
                        conv2d_dx_tap(dx + (r * s->w + q) * s->c, g, w + (u * s->kw + v) * ci, scale, s);
                    }
                }
            }
        }
    }
}
