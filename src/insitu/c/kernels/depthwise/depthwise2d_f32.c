/* y[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o]
 * with as many outputs as inputs; w[kh,kw,o]; b may be null. Taps on the padding count as zero.
 * Scratch: kh kw taps. Not in place.
 */
#include "kernels.h"
#include "kernels/spans.h"

void depthwise2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s, void *scratch)
{
    const int32_t row = s->ow * s->o;
    tap_row t = {s->ow, s->c, s->sw, s->w, 1, 1, s->sh * s->w * s->c, row};
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i += t.rows, y += t.rows * row) {
            t.rows = rows_inside(s, i);
            const int32_t count = taps_of_row(scratch, s, i, x, w, sizeof(float), sizeof(float));
            taps_f32(y, b, scratch, count, &t);
        }
    }
}
