/* y[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o]
 * with as many outputs as inputs; w[kh,kw,o]; b may be null. Taps on the padding count as zero. Not in place.
 */
#include "isa.h"
#include "kernels.h"

/* pixels j0..j1-1 of row i: the taps of pixel j0 are those of all */
static void run(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s, int32_t i,
                int32_t j0, int32_t j1)
{
    const int32_t r0 = i * s->sh - s->pt, q0 = j0 * s->sw - s->pl;
    const tap_range rows = taps_inside(r0, s->kh, s->dh, s->h), cols = taps_inside(q0, s->kw, s->dw, s->w);
    const depthwise_run t = {
        .pixels = j1 - j0, .c = s->c, .kh = rows.last - rows.first, .kw = cols.last - cols.first,
        .step = s->sw * s->c, .row = s->dh * s->w * s->c, .col = s->dw * s->c, .w_row = s->kw * s->c,
    };
    x += ((r0 + rows.first * s->dh) * s->w + q0 + cols.first * s->dw) * s->c;
    w += (rows.first * s->kw + cols.first) * s->c;
    depthwise_run_f32(y + j0 * s->c, x, w, b, &t);
}

void depthwise2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s)
{
    const int32_t left = (s->pl + s->sw - 1) / s->sw, room = s->w + s->pl - (s->kw - 1) * s->dw;
    const int32_t j0 = left < s->ow ? left : s->ow, fit = room > 0 ? (room + s->sw - 1) / s->sw : 0;
    const int32_t j1 = fit < j0 ? j0 : fit < s->ow ? fit : s->ow;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, y += s->ow * s->o) {
            for (int32_t j = 0; j < j0; j++) {
                run(y, x, w, b, s, i, j, j + 1);
            }
            if (j0 < j1) {
                run(y, x, w, b, s, i, j0, j1);
            }
            for (int32_t j = j1; j < s->ow; j++) {
                run(y, x, w, b, s, i, j, j + 1);
            }
        }
    }
}
