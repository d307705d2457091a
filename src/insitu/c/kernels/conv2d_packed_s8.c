/* conv2d_s8 for constant weights of one group, packed when the program was made:
 *   w        [o/16][k/4][16][4] with k = (u,v,c), zero where there is no o or k
 *   offset   -(x_zero + 128) * sum of w[o]: takes back that x is read as x + 128, unsigned, and centred nowhere
 * so that y = requantised (b[o] + offset[o] + sum over k of w[o,k] (x[..k..] + 128)). b may be null.
 * Scratch: tile (at most 8) windows of 4 * ceil(kh kw c / 4) bytes. Not in place.
 */
#include "isa.h"
#include "kernels.h"

static uint8_t *fill(uint8_t *col, int32_t value, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        col[i] = (uint8_t)value;
    }
    return col + n;
}

/* one row of taps of one window; `row` is null above and below the image */
static uint8_t *gather_row(uint8_t *col, const int8_t *row, const conv2d_shape *s, int32_t q0, int32_t pad)
{
    const tap_range in = taps_inside(q0, s->kw, s->dw, row ? s->w : 0);
    if (in.first == in.last) {
        return fill(col, pad, s->kw * s->c);
    }
    col = fill(col, pad, in.first * s->c);
    row += (q0 + in.first * s->dw) * s->c;
    if (s->dw == 1) {
        raise_s8(col, row, (in.last - in.first) * s->c);
        col += (in.last - in.first) * s->c;
    } else {
        for (int32_t v = in.first; v < in.last; v++, row += s->dw * s->c, col += s->c) {
            raise_s8(col, row, s->c);
        }
    }
    return fill(col, pad, (s->kw - in.last) * s->c);
}

static void gather(uint8_t *col, const int8_t *x, const conv2d_shape *s, int32_t i, int32_t j, int32_t pad)
{
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t r = i * s->sh + u * s->dh - s->pt;
        const int8_t *row = r >= 0 && r < s->h ? x + r * s->w * s->c : NULL;
        col = gather_row(col, row, s, j * s->sw - s->pl, pad);
    }
}

void conv2d_packed_s8(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *b, const int32_t *offset,
                      const conv2d_shape *s, const requant *q, int32_t tile, void *scratch)
{
    uint8_t *cols = (uint8_t *)scratch;
    const int32_t k = s->kh * s->kw * s->c, k4 = (k + 3) / 4, pixels = s->oh * s->ow, pad = q->x_zero + 128;
    const int plain = k == s->c && k % 4 == 0 && s->sh == 1 && s->sw == 1 && s->oh == s->h && s->ow == s->w;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        int32_t i = 0, j = 0;
        for (int32_t p = 0; p < pixels; p += tile) {
            const int32_t rows = pixels - p < tile ? pixels - p : tile;
            if (plain) {
                raise_s8(cols, x + p * k, rows * k);
            } else {
                for (int32_t t = 0; t < rows; t++) {
                    gather(cols + t * 4 * k4, x, s, i, j, pad);
                    i += ++j == s->ow;
                    j = j == s->ow ? 0 : j;
                }
            }
            tile_s8(y, cols, rows, k4, w, b, offset, s->o, q);
            y += rows * s->o;
        }
    }
}
