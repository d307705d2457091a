/* linear_s8 for constant weights, packed at compile time, as for conv2d_packed_s8:
 *   w        [o/16][i/4][16][4], zero-padded in o and i
 *   offset   -(x_zero + 128) * sum of w[o]
 * Scratch: tile (at most 8) rows of 4 * ceil(i / 4) bytes. Not in place.
 */
#include "isa/primitives.h"
#include "kernels.h"

void linear_packed_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const int32_t *offset,
                      const linear_shape *s, const requant *q, int32_t tile, void *scratch)
{
    uint8_t *u = (uint8_t *)scratch;
    const uint8_t *run = u;
    const int32_t k4 = (s->i + 3) / 4;
    tile_ready ready;
    ready.blocks = 0;
    if (s->rows > 1) {
        tile_ready_s8(&ready, tile, 4 * k4, b, offset, s->o, q);
    }
    for (int32_t r = 0; r < s->rows; r += tile) {
        const int32_t rows = s->rows - r < tile ? s->rows - r : tile;
        for (int32_t t = 0; t < rows; t++) {
            raise_s8(u + t * 4 * k4, x + (r + t) * s->i, s->i);
        }
        tile_s8(y + r * s->o, mask_row(mask, r, s->o), s->o, &run, 1, k4, 4 * k4, rows, w, b, offset, s->o, q, &ready);
    }
}
