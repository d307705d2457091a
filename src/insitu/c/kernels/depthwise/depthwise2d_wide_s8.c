/* acc[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o / m] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped, with m = o/c outputs per input; w[kh,kw,o]; b may
 * be null. The padding is x_zero. Not in place.
 */
#include "kernels.h"

static uint32_t at(const int8_t *x, const int8_t *w, const conv2d_shape *s, int32_t r0, int32_t q0, int32_t zero)
{
    const tap_range rows = taps_inside(r0, s->kh, s->dh, s->h), cols = taps_inside(q0, s->kw, s->dw, s->w);
    uint32_t sum = 0;
    for (int32_t u = rows.first; u < rows.last; u++) {
        for (int32_t v = cols.first; v < cols.last; v++) {
            const int32_t pixel = (r0 + u * s->dh) * s->w + q0 + v * s->dw;
            sum += (uint32_t)(w[(u * s->kw + v) * s->o] * (x[pixel * s->c] - zero));
        }
    }
    return sum;
}

void depthwise2d_wide_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const conv2d_shape *s,
                         const requant *q)
{
    const int32_t m = s->o / s->c;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++) {
                uint8_t *bits = mask_row(mask, (n * s->oh + i) * s->ow + j, s->o);
                for (int32_t o = 0; o < s->o; o++) {
                    const uint32_t sum = at(x + o / m, w + o, s, i * s->sh - s->pt, j * s->sw - s->pl, q->x_zero);
                    *y++ = requant_masked(bits, (int32_t)(sum + (b ? (uint32_t)b[o] : 0u)), o, q);
                }
            }
        }
    }
}
