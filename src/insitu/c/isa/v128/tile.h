/* tile_s8 for WebAssembly: sixteen outputs of two rows at a time, in pairs of products. Equal to scalar_tile_s8. */
#ifndef INSITU_ISA_V128_TILE_H
#define INSITU_ISA_V128_TILE_H

#include "isa/inline.h"
#include "isa/v128/intrinsics.h"

/* Sums over pairs of k, for two rows: lanes 2i and 2i + 1 of sums[j] belong to output 2j + i. */
typedef struct {
    v128_t of[2][8];
} v128_sums;

ALWAYS_INLINE v128_t v128_four_bytes(const uint8_t *from)
{
    return wasm_u16x8_extend_low_u8x16(wasm_v128_load32_splat(from));
}

/* one run: k4 times four bytes of each row, and four weights of each output */
ALWAYS_INLINE const int8_t *v128_add_run(v128_sums *sums, const uint8_t *first, const uint8_t *second, int32_t k4,
                                         const int8_t *w)
{
    for (int32_t k = 0; k < k4; k++, w += 64, first += 4, second += 4) {
        const v128_t x0 = v128_four_bytes(first), x1 = v128_four_bytes(second);
        UNROLL
        for (int j = 0; j < 4; j++) {
            const v128_t eight = wasm_v128_load(w + 16 * j);
            const v128_t low = wasm_i16x8_extend_low_i8x16(eight), high = wasm_i16x8_extend_high_i8x16(eight);
            sums->of[0][2 * j] = wasm_i32x4_add(sums->of[0][2 * j], wasm_i32x4_dot_i16x8(low, x0));
            sums->of[0][2 * j + 1] = wasm_i32x4_add(sums->of[0][2 * j + 1], wasm_i32x4_dot_i16x8(high, x0));
            sums->of[1][2 * j] = wasm_i32x4_add(sums->of[1][2 * j], wasm_i32x4_dot_i16x8(low, x1));
            sums->of[1][2 * j + 1] = wasm_i32x4_add(sums->of[1][2 * j + 1], wasm_i32x4_dot_i16x8(high, x1));
        }
    }
    return w;
}

/* the sums of a row's sixteen outputs */
ALWAYS_INLINE void v128_store_sums(int32_t *to, const v128_t *of)
{
    UNROLL
    for (int j = 0; j < 4; j++) {
        const v128_t even = wasm_i32x4_shuffle(of[2 * j], of[2 * j + 1], 0, 2, 4, 6);
        const v128_t odd = wasm_i32x4_shuffle(of[2 * j], of[2 * j + 1], 1, 3, 5, 7);
        wasm_v128_store(to + 4 * j, wasm_i32x4_add(even, odd));
    }
}

static inline void v128_tile_s8(int8_t *y, uint8_t *mask, int32_t y_row, const uint8_t *const *u, int32_t runs,
                                int32_t k4, int32_t step, int32_t rows, const int8_t *w, const int32_t *b,
                                const int32_t *c, int32_t outs, const requant *q)
{
    for (int32_t first = 0; first < outs; first += 16, w += (ptrdiff_t)runs * k4 * 64) {
        const int32_t count = outs - first < 16 ? outs - first : 16;
        for (int32_t p = 0; p < rows; p += 2) {
            const int32_t both = p + 1 < rows;
            const int8_t *from = w;
            v128_sums sums = {{{{0}}}};
            int32_t acc[16];
            for (int32_t r = 0; r < runs; r++) {
                const uint8_t *row = u[r] + (ptrdiff_t)p * step;
                from = v128_add_run(&sums, row, row + both * step, k4, from);
            }
            for (int32_t i = 0; i <= both; i++) {
                v128_store_sums(acc, sums.of[i]);
                for (int32_t o = 0; o < count; o++) {
                    const int32_t at = first + o;
                    const uint32_t sum = (uint32_t)acc[o] + (uint32_t)c[at] + (b ? (uint32_t)b[at] : 0u);
                    y[(p + i) * y_row + at] = requant_masked(mask_row(mask, p + i, y_row), (int32_t)sum, at, q);
                }
            }
        }
    }
}
#define plain_tile_s8 v128_tile_s8

#endif
