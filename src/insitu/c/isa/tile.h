/* The definition of tile_s8, and which machine's version is taken. */
#ifndef INSITU_ISA_TILE_H
#define INSITU_ISA_TILE_H

#include <stddef.h>
#include <stdint.h>

#include "isa/machine.h"
#include "isa/tile_ready.h"
#include "numbers/requant.h"

/* y[p,o] = requantised (b[o] + c[o] + sum over r,k of u[r][p*step + k] w[o,r,k]) for p < rows (at most 16), o < outs.
 * There are `runs` runs of 4*k4 unsigned bytes; w is packed [outs/16][runs][k4][16][4], zero-padded in k and o;
 * b may be null. `mask`, if not null, gets one row of bits per row of y: see requant_masked. A row of y has y_row
 * elements.
 */
static inline void scalar_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row, const uint8_t *const *u, int32_t runs,
                                  int32_t k4, int32_t step, int32_t rows, const int8_t *w, const int32_t *b,
                                  const int32_t *c, int32_t outs, const requant *q)
{
    for (int32_t p = 0; p < rows; p++) {
        for (int32_t o = 0; o < outs; o++) {
            const int8_t *row = w + (o / 16 * runs * k4 * 16 + o % 16) * 4;
            uint32_t acc = (uint32_t)c[o] + (b ? (uint32_t)b[o] : 0u);
            for (int32_t r = 0; r < runs; r++) {
                const uint8_t *from = u[r] + p * step;
                for (int32_t k = 0; k < k4; k++, row += 64, from += 4) {
                    for (int32_t i = 0; i < 4; i++) {
                        acc += (uint32_t)(from[i] * row[i]);
                    }
                }
            }
            y[p * y_row + o] = requant_masked(mask_row(mask, p, y_row), (int32_t)acc, o, q);
        }
    }
}

#if INSITU_AVX512
#include "isa/avx512/tile.h"
#elif INSITU_AVX2_FLOATS
#include "isa/avx2/tile.h"
#elif INSITU_V128
#include "isa/v128/tile.h"
#else
#define plain_tile_s8 scalar_tile_s8
#endif

/* The same with what is ready of b, c and q: tile_any_ready_s8 prepares it for tiles of up to `rows` rows and k bytes. */
#ifndef tile_any_s8
#define tile_any_s8(y, mask, y_row, u, runs, k4, step, rows, w, b, c, outs, q, ready)                                  \
    ((void)(ready), plain_tile_s8(y, mask, y_row, u, runs, k4, step, rows, w, b, c, outs, q))
#define tile_any_ready_s8(ready, rows, k, b, c, outs, q)                                                             \
    ((ready)->blocks = 0, (void)(rows), (void)(k), (void)(b), (void)(c), (void)(outs), (void)(q))
#endif

/* The same with u = x + 128 for any number of rows of k inputs, one after the other, and one run. A machine that has it
 * computes it and returns 1, or returns 0 and leaves it to tile_s8. */
#ifndef rows_any_s8
#define rows_any_s8(y, mask, y_row, x, k, count, w, b, c, outs, q) 0
#endif

#endif
