/* y[n,i,j,c] = max over the window's taps that lie on x. Every window has one. Not in place. */
#include "isa/primitives.h"
#include "kernels.h"

static void window(float *y, const float *x, const conv2d_shape *s, int32_t r0, int32_t q0)
{
    const tap_range rows = taps_inside(r0, s->kh, s->dh, s->h), cols = taps_inside(q0, s->kw, s->dw, s->w);
    for (int32_t c = 0; c < s->c; c++) {
        y[c] = x[((r0 + rows.first * s->dh) * s->w + q0 + cols.first * s->dw) * s->c + c];
    }
    for (int32_t u = rows.first; u < rows.last; u++) {
        for (int32_t v = cols.first; v < cols.last; v++) {
            max_f32(y, x + ((r0 + u * s->dh) * s->w + q0 + v * s->dw) * s->c, s->c);
        }
    }
}

void max_pool2d_f32(float *y, const float *x, const conv2d_shape *s)
{
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++, y += s->c) {
                window(y, x, s, i * s->sh - s->pt, j * s->sw - s->pl);
            }
        }
    }
}
