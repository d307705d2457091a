/* dw[u,v,o] = sum over n,i,j of g[n,i,j,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o], as many outputs as inputs.
 * Each dw is one chain of multiply-adds, over n, then i, then j.
 * Scratch: kh kw taps. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"
#include "kernels/spans.h"

void depthwise2d_dw_f32(float *dw, const float *g, const float *x, const conv2d_shape *s, void *scratch)
{
    const tap_row t = {s->ow, s->c, s->sw, s->w, 1, 1, 0, 0};
    clear_f32(dw, s->kh * s->kw * s->o);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, g += s->ow * s->o) {
            const int32_t count = taps_of_row(scratch, s, i, x, dw, sizeof(float), sizeof(float));
            taps_dw_f32(scratch, count, g, &t);
        }
    }
}
