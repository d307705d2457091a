/* acc[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c] - x_zero)
 * for several groups. y = requantised acc, mask (if not null) where it was not clamped. Weights are
 * w[o,kh,kw,c/groups]; b may be null. The padding is x_zero.
 * Scratch: 2 kh kw c/groups bytes, one window of one group. Not in place.
 */
#include "isa/primitives.h"
#include "kernels.h"

/* the window of pixel (i,j) and the channels from c0 on, minus the zero point */
static void window_s16(int16_t *col, const int8_t *x, const conv2d_shape *s, int32_t i, int32_t j, int32_t c0,
                       int32_t zero)
{
    const int32_t ci = s->c / s->groups;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t r = i * s->sh + u * s->dh - s->pt;
        for (int32_t v = 0; v < s->kw; v++, col += ci) {
            const int32_t q = j * s->sw + v * s->dw - s->pl;
            if (r >= 0 && r < s->h && q >= 0 && q < s->w) {
                centre_s8(col, x + (r * s->w + q) * s->c + c0, zero, ci);
                continue;
            }
            for (int32_t k = 0; k < ci; k++) {
                col[k] = 0;
            }
        }
    }
}

void conv2d_grouped_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b,
                       const conv2d_shape *s, const requant *q, void *scratch)
{
    int16_t *col = (int16_t *)scratch;
    const int32_t ci = s->c / s->groups, taps = s->kh * s->kw * ci, og = s->o / s->groups;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++) {
                uint8_t *bits = mask_row(mask, (n * s->oh + i) * s->ow + j, s->o);
                for (int32_t o = 0; o < s->o; o++) {
                    if (o % og == 0) {
                        window_s16(col, x, s, i, j, o / og * ci, q->x_zero);
                    }
                    const uint32_t sum = (uint32_t)dot_s16s8(col, w + o * taps, taps);
                    *y++ = requant_masked(bits, (int32_t)(sum + (b ? (uint32_t)b[o] : 0u)), o, q);
                }
            }
        }
    }
}
