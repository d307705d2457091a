/* conv2d_s8 for constant weights of one group, packed when the program was made:
 *   w        [o/16][runs][k/4][16][4], zero where there is no o or k. A run is what lies together in x: the kw c taps
 *            of a kernel row (runs = kh), or with dw > 1 the c taps of one pixel (runs = kh kw)
 *   offset   -(x_zero + 128) * sum of w[o]: takes back that x is read as x + 128, unsigned, and centred nowhere
 * so that y = requantised (b[o] + offset[o] + sum over k of w[o,k] (x[..k..] + 128)). b may be null.
 * Scratch, 1x1 kernels that move by one over c % 4 == 0: 16 c bytes, 16 pixels of x + 128. Others: 8 * runs bytes
 * (rounded up to 16) and (kh - 1) dh + 1 rows of x + 128 with their padding, each as wide as the outputs need, plus 3
 * bytes, rounded up to 16. Not in place.
 */
#include "isa.h"
#include "kernels.h"

enum { TILE = 16 };

static void fill(uint8_t *to, int32_t value, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = (uint8_t)value;
    }
}

static void plain(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const int32_t *offset,
                  const conv2d_shape *s, const requant *q, uint8_t *pixels)
{
    const uint8_t *run = pixels;
    const int32_t count = s->n * s->h * s->w;
    for (int32_t p = 0; p < count; p += TILE) {
        const int32_t rows = count - p < TILE ? count - p : TILE;
        raise_s8(pixels, x + p * s->c, rows * s->c);
        tile_s8(y + p * s->o, mask_row(mask, p, s->o), &run, 1, s->c / 4, s->c, rows, w, b, offset, s->o, q);
    }
}

/* x + 128 of the rows some outputs need, as a ring */
typedef struct {
    uint8_t *rows;
    int32_t bytes, span, next; /* a row's bytes, how many rows there are, the next row of x to come in */
} ring;

static void advance(ring *g, const int8_t *x, const conv2d_shape *s, int32_t last, int32_t pad)
{
    const int32_t room = g->bytes / s->c - s->pl, w = room < s->w ? room : s->w;
    const int32_t first = last - g->span + 1;
    for (int32_t r = g->next > first ? g->next : first; r <= last; r++) {
        uint8_t *row = g->rows + (r + s->pt) % g->span * g->bytes;
        if (r >= 0 && r < s->h) {
            raise_s8(row + s->pl * s->c, x + r * s->w * s->c, w * s->c);
        } else {
            fill(row, pad, g->bytes);
        }
    }
    g->next = last + 1;
}

/* where each run of the window at the left edge of output row i starts */
static void point(const uint8_t **runs, const ring *g, const conv2d_shape *s, int32_t i)
{
    for (int32_t u = 0; u < s->kh; u++) {
        const uint8_t *row = g->rows + (i * s->sh + u * s->dh) % g->span * g->bytes;
        for (int32_t v = 0; v < (s->dw == 1 ? 1 : s->kw); v++) {
            *runs++ = row + v * s->dw * s->c;
        }
    }
}

void conv2d_packed_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const int32_t *offset,
                      const conv2d_shape *s, const requant *q, void *scratch)
{
    const int same = s->sh == 1 && s->sw == 1 && s->oh == s->h && s->ow == s->w;
    if (same && s->kh == 1 && s->kw == 1 && s->c % 4 == 0) {
        plain(y, mask, x, w, b, offset, s, q, (uint8_t *)scratch);
        return;
    }
    const uint8_t **runs = (const uint8_t **)scratch;
    const int32_t count = s->dw == 1 ? s->kh : s->kh * s->kw, length = s->dw == 1 ? s->kw * s->c : s->c;
    const int32_t wide = ((s->ow - 1) * s->sw + (s->kw - 1) * s->dw + 1) * s->c, pad = q->x_zero + 128;
    ring g = {(uint8_t *)scratch + (8 * count + 15) / 16 * 16, (wide + 3 + 15) / 16 * 16, (s->kh - 1) * s->dh + 1, 0};
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        fill(g.rows, pad, g.span * g.bytes);
        g.next = -s->pt;
        for (int32_t i = 0; i < s->oh; i++) {
            advance(&g, x, s, i * s->sh - s->pt + g.span - 1, pad);
            point(runs, &g, s, i);
            for (int32_t j = 0; j < s->ow; j += TILE) {
                const int32_t rows = s->ow - j < TILE ? s->ow - j : TILE;
                tile_s8(y, mask_row(mask, (n * s->oh + i) * s->ow + j, s->o), runs, count, (length + 3) / 4, s->sw * s->c, rows, w, b, offset, s->o, q);
                for (int32_t r = 0; r < count; r++) {
                    runs[r] += TILE * s->sw * s->c;
                }
                y += rows * s->o;
            }
        }
    }
}
