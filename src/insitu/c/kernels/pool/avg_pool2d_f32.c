/* y[n,i,j,c] = the mean of the window's taps that lie on x; with count_pad the padding counts, as zeros.
 * Every window has a tap on x. Not in place.
 */
#include "isa/add_rows.h"
#include "kernels.h"

static void window(float *y, const float *x, const conv2d_shape *s, int32_t count_pad, int32_t r0, int32_t q0)
{
    const tap_range rows = taps_inside(r0, s->kh, 1, s->h), cols = taps_inside(q0, s->kw, 1, s->w);
    const int32_t inside = (rows.last - rows.first) * (cols.last - cols.first);
    const float count = (float)(count_pad ? s->kh * s->kw : inside);
    for (int32_t c = 0; c < s->c; c++) {
        y[c] = 0.0f;
    }
    for (int32_t u = rows.first; u < rows.last; u++) {
        add_rows_f32(y, x + ((r0 + u) * s->w + q0 + cols.first) * s->c, s->c, cols.last - cols.first, s->c);
    }
    for (int32_t c = 0; c < s->c; c++) {
        y[c] /= count;
    }
}

void avg_pool2d_f32(float *y, const float *x, const conv2d_shape *s, int32_t count_pad)
{
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++, y += s->c) {
                window(y, x, s, count_pad, i * s->sh - s->pt, j * s->sw - s->pl);
            }
        }
    }
}
