/* conv2d_f32 for constant weights of one group, packed when the program was made: w[o/16][k][16] with
 * k = (u,v,c), zero where there is no o. b may be null.
 * Scratch: tile (at most 8) windows of 4 kh kw c bytes; a 1x1 kernel that moves by one reads x where it lies.
 * Not in place.
 */
#include "isa.h"
#include "kernels.h"

static void gather(float *col, const float *x, const conv2d_shape *s, int32_t i, int32_t j)
{
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t r = i * s->sh + u * s->dh - s->pt;
        for (int32_t v = 0; v < s->kw; v++, col += s->c) {
            const int32_t q = j * s->sw + v * s->dw - s->pl;
            const int inside = r >= 0 && r < s->h && q >= 0 && q < s->w;
            const float *from = x + (inside ? (r * s->w + q) * s->c : 0);
            for (int32_t k = 0; k < s->c; k++) {
                col[k] = inside ? from[k] : 0.0f;
            }
        }
    }
}

void conv2d_packed_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s, int32_t tile,
                       void *scratch)
{
    float *cols = (float *)scratch;
    const int32_t k = s->kh * s->kw * s->c, pixels = s->oh * s->ow;
    const int plain = k == s->c && s->sh == 1 && s->sw == 1 && s->oh == s->h && s->ow == s->w;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        int32_t i = 0, j = 0;
        for (int32_t p = 0; p < pixels; p += tile) {
            const int32_t rows = pixels - p < tile ? pixels - p : tile;
            for (int32_t t = 0; t < rows && !plain; t++) {
                gather(cols + t * k, x, s, i, j);
                i += ++j == s->ow;
                j = j == s->ow ? 0 : j;
            }
            tile_f32(y, plain ? x + p * k : cols, k, rows, k, w, b, s->o);
            y += rows * s->o;
        }
    }
}
