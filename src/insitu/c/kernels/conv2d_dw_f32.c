/* dw[o,u,v,k] = sum over n,i,j of g[n,i,j,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, channels[k]]
 * `channels` may be null: all of them. Each dw is one chain of multiply-adds, over n, then i, then j.
 * scratch: count elements of x. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"

/* the wanted channels of a pixel, side by side */
static const float *conv2d_dw_gather(float *scratch, const float *x, const int32_t *channels, int32_t count)
{
    for (int32_t k = 0; k < count; k++) {
        scratch[k] = x[channels[k]];
    }
    return scratch;
}

static void conv2d_dw_tap(float *dw, const float *g, const float *x, int32_t k, const conv2d_shape *s)
{
    const int32_t og = s->o / s->groups, row = s->kh * s->kw * k;
    for (int32_t o = 0; o < s->o; o++) {
        if (g[o] != 0.0f) {
            fma_row_f32(dw + o * row, g[o], x + o / og * k, k);
        }
    }
}

void conv2d_dw_f32(float *dw, const float *g, const float *x, const int32_t *channels, int32_t count,  const conv2d_shape *s, void *scratch)
{
    const int32_t k = channels ? count : s->c / s->groups, total = s->o * s->kh * s->kw * k;
    clear_f32(dw, total);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            const tap_range rows = taps_inside(i * s->sh - s->pt, s->kh, s->dh, s->h);
            for (int32_t j = 0; j < s->ow; j++, g += s->o) {
                const tap_range cols = taps_inside(j * s->sw - s->pl, s->kw, s->dw, s->w);
                for (int32_t u = rows.first; u < rows.last; u++) {
                    for (int32_t v = cols.first; v < cols.last; v++) {
                        const int32_t r = i * s->sh - s->pt + u * s->dh, q = j * s->sw - s->pl + v * s->dw;
                        const float *p = x + (r * s->w + q) * s->c;
                        p = channels ? conv2d_dw_gather(scratch, p, channels, count) : p;
                        conv2d_dw_tap(dw + (u * s->kw + v) * k, g, p, k, s);
                    }
                }
            }
        }
    }
}
