/* acc[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped, with as many outputs as inputs; w[kh,kw,o]; b may
 * be null. The padding is x_zero. Scratch, each part rounded up to 16 bytes: 8 kh (pointers to rows), 4 o (the bias
 * minus the zero point of a window, so that no tap need subtract it), o (a pixel of padding). Not in place.
 */
#include "isa/primitives.h"
#include "kernels.h"

static void centred_bias(int32_t *bias, const int8_t *w, const int32_t *b, const conv2d_shape *s, int32_t zero)
{
    for (int32_t o = 0; o < s->o; o++) {
        bias[o] = b ? b[o] : 0;
    }
    for (int32_t t = 0; t < s->kh * s->kw; t++) {
        axpy_s8(bias, w + t * s->o, 0, -zero, s->o);
    }
}

void depthwise2d_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const conv2d_shape *s,
                    const requant *q, void *scratch)
{
    const int8_t **rows = (const int8_t **)scratch;
    int32_t *bias = (int32_t *)((char *)scratch + (8 * s->kh + 15) / 16 * 16);
    int8_t *pad = (int8_t *)bias + (4 * s->o + 15) / 16 * 16;
    const depthwise_row t = {s->ow, s->c, s->kh, s->kw, s->sw, s->dw, s->pl, s->w};
    centred_bias(bias, w, b, s, q->x_zero);
    if (depthwise_images_s8(y, mask, x, w, bias, s, q)) {
        return;
    }
    for (int32_t o = 0; o < s->o; o++) {
        pad[o] = (int8_t)q->x_zero;
    }
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, y += s->ow * s->o) {
            for (int32_t u = 0; u < s->kh; u++) {
                const int32_t r = i * s->sh + u * s->dh - s->pt;
                rows[u] = r >= 0 && r < s->h ? x + r * s->w * s->c : NULL;
            }
            depthwise_row_s8(y, mask_row(mask, (n * s->oh + i) * s->ow, s->o), rows, pad, w, bias, &t, q);
        }
    }
}
