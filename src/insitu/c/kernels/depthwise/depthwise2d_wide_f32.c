/* y[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o / m]
 * with m = o/c outputs per input; w[kh,kw,o]; b may be null. Taps on the padding count as zero. Not in place.
 */
#include "kernels.h"

static float at(const float *x, const float *w, const conv2d_shape *s, int32_t r0, int32_t q0)
{
    const tap_range rows = taps_inside(r0, s->kh, s->dh, s->h), cols = taps_inside(q0, s->kw, s->dw, s->w);
    float sum = 0.0f;
    for (int32_t u = rows.first; u < rows.last; u++) {
        for (int32_t v = cols.first; v < cols.last; v++) {
            sum += w[(u * s->kw + v) * s->o] * x[((r0 + u * s->dh) * s->w + q0 + v * s->dw) * s->c];
        }
    }
    return sum;
}

void depthwise2d_wide_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s)
{
    const int32_t m = s->o / s->c;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++) {
                for (int32_t o = 0; o < s->o; o++) {
                    *y++ = (b ? b[o] : 0.0f) + at(x + o / m, w + o, s, i * s->sh - s->pt, j * s->sw - s->pl);
                }
            }
        }
    }
}
