/* acc[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped; one group. Weights are w[o,kh,kw,c]; b may be null.
 * The padding is x_zero. The weights of `panel` outputs, a multiple of sixteen, are packed at a time, as for
 * conv2d_packed_s8 at compile time.
 * Scratch: that of conv2d_packed_s8, rounded up to 16 bytes, then the packed weights, then 4 panel bytes of offsets.
 * Not in place.
 */
#include "kernels/conv/conv_tiles.h"

/* one output of sixteen: w[runs][length] to every 64th byte on, and the sum of it all */
static int32_t pack_output(int8_t *to, const int8_t *w, int32_t runs, int32_t length)
{
    int32_t sum = 0;
    for (int32_t r = 0; r < runs; r++) {
        for (int32_t k = 0; k < length; k += 4, to += 64) {
            for (int32_t i = 0; i < 4; i++) {
                const int8_t f = k + i < length ? *w++ : 0;
                to[i] = f;
                sum += f;
            }
        }
    }
    return sum;
}

void conv2d_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t panel,
               int32_t tiles_bytes, const conv2d_shape *s, const requant *q, void *scratch)
{
    const int32_t runs = s->dw == 1 ? s->kh : s->kh * s->kw, length = s->dw == 1 ? s->kw * s->c : s->c;
    const int32_t k4 = (length + 3) / 4, taps = s->kh * s->kw * s->c;
    int8_t *packed = (int8_t *)scratch + tiles_bytes;
    int32_t *offset = (int32_t *)(packed + panel * runs * k4 * 4);
    requant part = *q;
    for (int32_t o = 0; o < s->o; o += panel) {
        const int32_t outs = s->o - o < panel ? s->o - o : panel;
        for (int32_t i = 0; i < outs; i++) {
            int8_t *to = packed + (i / 16 * runs * k4 * 16 + i % 16) * 4;
            offset[i] = -(q->x_zero + 128) * pack_output(to, w + (o + i) * taps, runs, length);
        }
        part.m = q->m + (q->step ? o : 0);
        part.shift = q->shift + (q->step ? o : 0);
        conv2d_tiles(y + o, mask ? mask + o / 8 : NULL, x, packed, b ? b + o : NULL, offset, s, outs, &part, scratch);
    }
}
