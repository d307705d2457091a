/* dx[n,r,q,c] = sum over i,j,o of g[n,i,j,o] w[o,u,v,c] where tap u,v of output i,j lies on r,q.
 * Each dx is one chain of multiply-adds, over i, then j, then o. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"
#include "kernels/spans.h"

/* the contribution of a row of g to a row of dx, in the order of j: of two taps on a pixel, the later has the lower j
 * */
static void row(float *dx, const float *g, const float *w, const conv2d_shape *s, const matrix_shape *whole)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups;
    matrix_shape m = *whole;
    for (int32_t v = s->kw - 1; v >= 0; v--) {
        const span t = span_of(s, v);
        const int32_t q = t.j * s->sw + v * s->dw - s->pl;
        m.rows = t.count;
        for (int32_t k = 0; k < s->groups && t.count; k++) {
            float *to = dx + q * s->c + k * ci;
            matrix_f32(to, is_pointwise(s) ? NULL : to, g + t.j * s->o + k * og, w + k * og * m.b_row + v * ci, &m);
        }
    }
}

void conv2d_dx_f32(float *dx, const float *g, const float *w, const conv2d_shape *shape)
{
    const conv2d_shape flat = as_one_row(shape), *s = &flat;
    const int32_t ci = s->c / s->groups, x_row = s->sw * s->c;
    const matrix_shape m = {0, ci, s->o / s->groups, x_row, x_row, s->o, 1, s->kh * s->kw * ci};
    clear_f32(dx, is_pointwise(s) ? 0 : s->n * s->h * s->w * s->c);
    for (int32_t n = 0; n < s->n; n++, dx += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, g += s->ow * s->o) {
            for (int32_t u = 0; u < s->kh; u++) {
                const int32_t r = row_under(s, i, u);
                if (r >= 0) {
                    row(dx + r * s->w * s->c, g, w + u * s->kw * ci, s, &m);
                }
            }
        }
    }
}
