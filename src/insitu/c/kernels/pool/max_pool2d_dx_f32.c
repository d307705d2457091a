/* dx = the sum of g over the windows whose first maximum, row by row, is that element. Every window has a tap on x.
 * Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"

static void window(float *dx, const float *g, const float *x, const conv2d_shape *s, int32_t r0, int32_t q0)
{
    const tap_range rows = taps_inside(r0, s->kh, s->dh, s->h), cols = taps_inside(q0, s->kw, s->dw, s->w);
    for (int32_t c = 0; c < s->c; c++) {
        int32_t best = ((r0 + rows.first * s->dh) * s->w + q0 + cols.first * s->dw) * s->c + c;
        for (int32_t u = rows.first; u < rows.last; u++) {
            for (int32_t v = cols.first; v < cols.last; v++) {
                const int32_t at = ((r0 + u * s->dh) * s->w + q0 + v * s->dw) * s->c + c;
                best = x[at] > x[best] ? at : best;
            }
        }
        dx[best] += g[c];
    }
}

void max_pool2d_dx_f32(float *dx, const float *g, const float *x, const conv2d_shape *s)
{
    const int32_t image = s->h * s->w * s->c;
    clear_f32(dx, s->n * image);
    for (int32_t n = 0; n < s->n; n++, x += image, dx += image) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++, g += s->c) {
                window(dx, g, x, s, i * s->sh - s->pt, j * s->sw - s->pl);
            }
        }
    }
}
