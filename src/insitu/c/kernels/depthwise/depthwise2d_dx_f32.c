/* dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v of output i,j lies on r,q; as many outputs as inputs.
 * Each dx is one chain of multiply-adds, over i, then j: every pixel gathers its contributions.
 * Scratch: kh kw taps. Not in place.
 */
#include "kernels.h"
#include "kernels/spans.h"

/* inputs of row r and of the rows sh after one another below it: those sw apart have the same taps, too */
static void every_column(float *dx, const float *g, const float *w, int32_t r, int32_t rows, const conv2d_shape *s,
                         tap *taps)
{
    for (int32_t q = 0; q < s->sw && q < s->w; q++) {
        const int32_t pixels = (s->w - q - 1) / s->sw + 1, count = taps_on_row(taps, s, r, q, g, w, sizeof(float));
        const tap_row t = {pixels, s->c, 1, s->ow, s->sw, rows, s->ow * s->o, s->sh * s->w * s->c};
        taps_f32(dx + q * s->c, NULL, taps, count, &t);
    }
}

void depthwise2d_dx_f32(float *dx, const float *g, const float *w, const conv2d_shape *s, void *scratch)
{
    for (int32_t n = 0; n < s->n; n++, g += s->oh * s->ow * s->o) {
        for (int32_t r = 0, next; r < s->h; r = next) {
            const int32_t each = rows_with_taps(s, r);
            next = each ? r + each * s->sh : r + 1;
            for (int32_t p = r; p < next && p < r + s->sh; p++) { /* rows sh apart have the same taps */
                every_column(dx + p * s->w * s->c, g, w, p, each ? each : 1, s, scratch);
            }
        }
        dx += s->h * s->w * s->c;
    }
}
