/* dx[n,r,q,c] = sum over i,j,o of g[n,i,j,o] w[o,u,v,c] where tap u,v of output i,j lies on r,q,
 * with w = scale[o] * the integer weight: the scale goes into g.
 * Each dx is one chain of multiply-adds, over i, then j, then o.
 * Scratch: `piece` pixels of o floats. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"
#include "kernels/spans.h"

/* the contribution of outputs j..j+count-1 of a row to a row of dx, in the order of j: of two taps on a pixel, the
 * later has the lower j */
static void part(float *dx, const float *g, const int8_t *w, int32_t j, int32_t count, const conv2d_shape *s,
                 matrix_shape m)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups;
    for (int32_t v = s->kw - 1; v >= 0; v--) {
        const span t = span_of(s, v);
        const int32_t first = t.j > j ? t.j : j, end = t.j + t.count < j + count ? t.j + t.count : j + count;
        const int32_t q = first * s->sw + v * s->dw - s->pl;
        m.rows = end - first;
        for (int32_t k = 0; k < s->groups && m.rows > 0; k++) {
            float *to = dx + q * s->c + k * ci;
            const int8_t *f = w + k * og * m.b_row + v * ci;
            matrix_s8(to, is_pointwise(s) ? NULL : to, g + (first - j) * s->o + k * og, f, 0, &m);
        }
    }
}

void conv2d_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, int32_t piece,
                  const conv2d_shape *shape, void *scratch)
{
    const conv2d_shape flat = as_one_row(shape), *s = &flat;
    const int32_t ci = s->c / s->groups, x_row = s->sw * s->c;
    const matrix_shape m = {0, ci, s->o / s->groups, x_row, x_row, s->o, 1, s->kh * s->kw * ci};
    clear_f32(dx, is_pointwise(s) ? 0 : s->n * s->h * s->w * s->c);
    for (int32_t n = 0; n < s->n; n++, dx += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j += piece) {
                const int32_t count = s->ow - j < piece ? s->ow - j : piece;
                scale_rows_f32(scratch, g, scale, count, s->o);
                g += count * s->o;
                for (int32_t u = 0; u < s->kh; u++) {
                    const int32_t r = row_under(s, i, u);
                    if (r >= 0) {
                        part(dx + r * s->w * s->c, scratch, w + u * s->kw * ci, j, count, s, m);
                    }
                }
            }
        }
    }
}
