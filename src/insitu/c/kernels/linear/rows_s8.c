/* y[p,o] = requantised (b[o] + c[o] + sum over i of (x[p,i] + 128) w[o,i]) for p < count, i < k: see isa/tile.h. b may be
 * null. The product of 1x1 convolutions with packed weights. k is a multiple of 4. Scratch: 16 k bytes.
 */
#include "isa/primitives.h"
#include "isa/tile.h"
#include "kernels.h"

enum { ROWS_TILE = 16 };

void rows_s8(int8_t *y, uint8_t *mask, int32_t y_row, const int8_t *x, int32_t k, int32_t count, const int8_t *w,
             const int32_t *b, const int32_t *c, int32_t outs, const requant *q, void *scratch)
{
    const uint8_t *run = (const uint8_t *)scratch;
    if (rows_any_s8(y, mask, y_row, x, k, count, w, b, c, outs, q)) {
        return;
    }
    tile_ready ready;
    tile_ready_s8(&ready, count, k, b, c, outs, q);
    for (int32_t p = 0; p < count; p += ROWS_TILE) {
        const int32_t rows = count - p < ROWS_TILE ? count - p : ROWS_TILE;
        raise_s8((uint8_t *)scratch, x + p * k, rows * k);
        tile_s8(y + p * y_row, mask_row(mask, p, y_row), y_row, &run, 1, k / 4, k, rows, w, b, c, outs, q, &ready);
    }
}
