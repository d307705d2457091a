/* y[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o]
 * with as many outputs as inputs; w[kh,kw,o]; b may be null. Taps on the padding count as zero.
 * Scratch: 8 kh bytes, pointers to rows. Not in place.
 */
#include "isa.h"
#include "kernels.h"

void depthwise2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s, void *scratch)
{
    const float **rows = (const float **)scratch;
    const depthwise_row t = {s->ow, s->c, s->kh, s->kw, s->sw, s->dw, s->pl, s->w};
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, y += s->ow * s->o) {
            for (int32_t u = 0; u < s->kh; u++) {
                const int32_t r = i * s->sh + u * s->dh - s->pt;
                rows[u] = r >= 0 && r < s->h ? x + r * s->w * s->c : NULL;
            }
            depthwise_row_f32(y, rows, w, b, &t);
        }
    }
}
