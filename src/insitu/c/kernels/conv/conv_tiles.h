/* An int8 convolution of some outputs with packed weights, in tiles of sixteen pixels: see conv2d_packed_s8.c for the
 * layout of weights and scratch.
 */
#ifndef INSITU_CONV_TILES_H
#define INSITU_CONV_TILES_H

#include "isa/primitives.h"
#include "kernels.h"
#include "kernels/shapes.h"

enum { CONV_TILE = 16 };

static inline void fill_u8(uint8_t *to, int32_t value, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = (uint8_t)value;
    }
}

/* x + 128 of the rows that some outputs need, as a ring */
typedef struct {
    uint8_t *rows;
    int32_t bytes, span, next; /* bytes per row, number of rows, the next row of x to enter */
} ring;

static inline void advance(ring *g, const int8_t *x, const conv2d_shape *s, int32_t last, int32_t pad)
{
    const int32_t room = g->bytes / s->c - s->pl, w = room < s->w ? room : s->w;
    const int32_t first = last - g->span + 1;
    for (int32_t r = g->next > first ? g->next : first; r <= last; r++) {
        uint8_t *row = g->rows + (r + s->pt) % g->span * g->bytes;
        if (r >= 0 && r < s->h) {
            raise_s8(row + s->pl * s->c, x + r * s->w * s->c, w * s->c);
        } else {
            fill_u8(row, pad, g->bytes);
        }
    }
    g->next = last + 1;
}

/* where each run of the window at the left edge of output row i starts */
static inline void point(const uint8_t **runs, const ring *g, const conv2d_shape *s, int32_t i)
{
    for (int32_t u = 0; u < s->kh; u++) {
        const uint8_t *row = g->rows + (i * s->sh + u * s->dh) % g->span * g->bytes;
        for (int32_t v = 0; v < (s->dw == 1 ? 1 : s->kw); v++) {
            *runs++ = row + v * s->dw * s->c;
        }
    }
}

/* y, mask, b and q from the first of `outs` outputs on */
static inline void conv2d_tiles(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b,
                                const int32_t *offset, const conv2d_shape *s, int32_t outs, const requant *q,
                                void *scratch)
{
    const int same = s->sh == 1 && s->sw == 1 && s->oh == s->h && s->ow == s->w;
    if (same && s->kh == 1 && s->kw == 1 && s->c % 4 == 0) {
        rows_s8(y, mask, s->o, x, s->c, s->n * s->h * s->w, w, b, offset, outs, q, scratch);
        return;
    }
    const uint8_t **runs = (const uint8_t **)scratch;
    const int32_t count = s->dw == 1 ? s->kh : s->kh * s->kw, length = s->dw == 1 ? s->kw * s->c : s->c;
    const int32_t wide = ((s->ow - 1) * s->sw + (s->kw - 1) * s->dw + 1) * s->c, pad = q->x_zero + 128;
    ring g = {(uint8_t *)scratch + (8 * count + 15) / 16 * 16, (wide + 3 + 15) / 16 * 16, (s->kh - 1) * s->dh + 1, 0};
    tile_ready ready;
    tile_ready_s8(&ready, s->ow, count * ((length + 3) / 4 * 4), b, offset, outs, q);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        fill_u8(g.rows, pad, g.span * g.bytes);
        g.next = -s->pt;
        for (int32_t i = 0; i < s->oh; i++) {
            advance(&g, x, s, i * s->sh - s->pt + g.span - 1, pad);
            point(runs, &g, s, i);
            for (int32_t j = 0; j < s->ow; j += CONV_TILE) {
                const int32_t rows = s->ow - j < CONV_TILE ? s->ow - j : CONV_TILE;
                uint8_t *bits = mask_row(mask, (n * s->oh + i) * s->ow + j, s->o);
                tile_s8(y, bits, s->o, runs, count, (length + 3) / 4, s->sw * s->c, rows, w, b, offset, outs, q,
                        &ready);
                for (int32_t r = 0; r < count; r++) {
                    runs[r] += CONV_TILE * s->sw * s->c;
                }
                y += rows * s->o;
            }
        }
    }
}

#endif
