/* dx = the sum of g / count over the windows that contain the element, count as in avg_pool2d_f32. Not in place. */
#include "isa/fma.h"
#include "kernels.h"

static void window(float *dx, const float *g, const conv2d_shape *s, int32_t count_pad, int32_t r0, int32_t q0)
{
    const tap_range rows = taps_inside(r0, s->kh, 1, s->h), cols = taps_inside(q0, s->kw, 1, s->w);
    const int32_t inside = (rows.last - rows.first) * (cols.last - cols.first);
    const float share = 1.0f / (float)(count_pad ? s->kh * s->kw : inside);
    for (int32_t u = rows.first; u < rows.last; u++) {
        for (int32_t v = cols.first; v < cols.last; v++) {
            fma_row_f32(dx + ((r0 + u) * s->w + q0 + v) * s->c, share, g, s->c);
        }
    }
}

void avg_pool2d_dx_f32(float *dx, const float *g, const conv2d_shape *s, int32_t count_pad)
{
    const int32_t image = s->h * s->w * s->c;
    clear_f32(dx, s->n * image);
    for (int32_t n = 0; n < s->n; n++, dx += image) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++, g += s->c) {
                window(dx, g, s, count_pad, i * s->sh - s->pt, j * s->sw - s->pl);
            }
        }
    }
}
