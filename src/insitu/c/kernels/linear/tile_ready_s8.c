/* Prepare b, c and q of tile_s8 for tiles of up to `rows` rows of k bytes: see isa/tile_ready.h. b may be null. */
#include "isa/tile.h"
#include "kernels.h"

void tile_ready_s8(tile_ready *ready, int32_t rows, int32_t k, const int32_t *b, const int32_t *c, int32_t outs,
                   const requant *q)
{
    tile_any_ready_s8(ready, rows, k, b, c, outs, q);
}
