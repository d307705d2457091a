/* depthwise_row_s8 for WebAssembly: eight channels at a time. Equal to scalar_depthwise_row_s8. */
#ifndef INSITU_ISA_V128_DEPTHWISE_H
#define INSITU_ISA_V128_DEPTHWISE_H

#include "isa/inline.h"
#include "isa/v128/intrinsics.h"

/* acc[0..7] = b + sum over taps, for channels o to o + 7 of pixel p */
ALWAYS_INLINE void v128_eight_channels(int32_t *acc, int32_t p, int32_t o, const int8_t *const *rows, const int8_t *pad,
                                       const int8_t *w, const int32_t *b, const depthwise_row *t)
{
    v128_t low = wasm_v128_load(b + o), high = wasm_v128_load(b + o + 4);
    const int8_t *f = w + o;
    for (int32_t u = 0; u < t->kh; u++) {
        int32_t at = p * t->stride - t->left;
        for (int32_t v = 0; v < t->kw; v++, at += t->dilation, f += t->c) {
            const int inside = rows[u] && at >= 0 && at < t->width;
            const v128_t x = wasm_i16x8_load8x8((inside ? rows[u] + (ptrdiff_t)at * t->c : pad) + o);
            const v128_t weights = wasm_i16x8_load8x8(f);
            low = wasm_i32x4_add(low, wasm_i32x4_extmul_low_i16x8(x, weights));
            high = wasm_i32x4_add(high, wasm_i32x4_extmul_high_i16x8(x, weights));
        }
    }
    wasm_v128_store(acc, low);
    wasm_v128_store(acc + 4, high);
}

static inline void v128_depthwise_row_s8(int8_t *y, uint8_t *mask, const int8_t *const *rows, const int8_t *pad,
                                         const int8_t *w, const int32_t *b, const depthwise_row *t, const requant *q)
{
    if (t->c < 8) {
        scalar_depthwise_row_s8(y, mask, rows, pad, w, b, t, q);
        return;
    }
    for (int32_t p = 0; p < t->pixels; p++, y += t->c) {
        uint8_t *bits = mask_row(mask, p, t->c);
        for (int32_t o = 0; o < t->c; o += 8) {
            int32_t acc[8];
            const int32_t from = o + 8 <= t->c ? o : t->c - 8; /* the last eight overlap those before */
            v128_eight_channels(acc, p, from, rows, pad, w, b, t);
            for (int32_t i = o; i < o + 8 && i < t->c; i++) {
                y[i] = requant_masked(bits, acc[i - from], i, q);
            }
        }
    }
}
#define depthwise_row_s8 v128_depthwise_row_s8

#endif
