/* y[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o] += w[c,u,v,o] x[n,i,j,c]; plus b[o]
 * w[c,kh,kw,o/groups]; b may be null. Not in place.
 */
#include "isa/primitives.h"
#include "kernels.h"

static void start(float *y, const float *b, int32_t pixels, int32_t o)
{
    for (int32_t p = 0; p < pixels; p++) {
        for (int32_t k = 0; k < o; k++) {
            *y++ = b ? b[k] : 0.0f;
        }
    }
}

/* one input channel of one pixel, added to every output it reaches: (r0, q0) is the output of its first tap */
static void scatter(float *y, float x, const float *w, const conv2d_shape *s, int32_t r0, int32_t q0)
{
    const int32_t og = s->o / s->groups;
    const tap_range rows = taps_inside(r0, s->kh, s->dh, s->oh), cols = taps_inside(q0, s->kw, s->dw, s->ow);
    for (int32_t u = rows.first; u < rows.last; u++) {
        for (int32_t v = cols.first; v < cols.last; v++) {
            const int32_t pixel = (r0 + u * s->dh) * s->ow + q0 + v * s->dw;
            axpy_f32(y + pixel * s->o, w + (u * s->kw + v) * og, x, og);
        }
    }
}

void conv_transpose2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups, taps = s->kh * s->kw * og;
    start(y, b, s->n * s->oh * s->ow, s->o);
    for (int32_t n = 0; n < s->n; n++, y += s->oh * s->ow * s->o) {
        for (int32_t i = 0; i < s->h; i++) {
            for (int32_t j = 0; j < s->w; j++) {
                for (int32_t c = 0; c < s->c; c++) {
                    scatter(y + c / ci * og, *x++, w + c * taps, s, i * s->sh - s->pt, j * s->sw - s->pl);
                }
            }
        }
    }
}
