/* dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v of output i,j lies on r,q; as many outputs as inputs.
 * Each dx is one chain of multiply-adds, over i, then j: every pixel gathers its contributions.
 * Scratch: kh kw taps. Not in place.
 */
#include "kernels.h"
#include "kernels/spans.h"

void depthwise2d_dx_f32(float *dx, const float *g, const float *w, const conv2d_shape *s, void *scratch)
{
    for (int32_t n = 0; n < s->n; n++, g += s->oh * s->ow * s->o) {
        for (int32_t r = 0, rows; r < s->h; r += rows, dx += rows * s->w * s->c) {
            rows = rows_with_taps(s, r);
            for (int32_t q = 0; q < s->sw && q < s->w; q++) {
                const tap_row t = {(s->w - q - 1) / s->sw + 1, s->c, 1, s->ow, s->sw, rows, s->ow * s->o, s->w * s->c};
                const int32_t count = taps_on_row(scratch, s, r, q, g, w, sizeof(float));
                taps_f32(dx + q * s->c, NULL, scratch, count, &t);
            }
        }
    }
}
