/* y[p,o] = requantised (b[o] + c[o] + sum over r,k of u[r][p*step + k] w[o,r,k]): see isa/tile.h. The product of int8
 * layers with packed weights, compiled once for all of them. `ready` is what tile_ready_s8 made of b, c and q.
 */
#include "isa/tile.h"
#include "kernels.h"

void tile_s8(int8_t *y, uint8_t *mask, int32_t y_row, const uint8_t *const *u, int32_t runs, int32_t k4, int32_t step,
             int32_t rows, const int8_t *w, const int32_t *b, const int32_t *c, int32_t outs, const requant *q,
             const tile_ready *ready)
{
    tile_any_s8(y, mask, y_row, u, runs, k4, step, rows, w, b, c, outs, q, ready);
}
