/* primitives.h, the depthwise part: a row of int8 outputs, sixteen channels at a time. Equal to scalar_depthwise_row_s8
 * in every bit.
 *
 * Taps are multiplied in pairs: a word has the inputs of a channel at two taps, another the two weights.
 */
#ifndef INSITU_ISA_AVX2_DEPTHWISE_H
#define INSITU_ISA_AVX2_DEPTHWISE_H

#include "isa/avx2/requant.h"
#include "kernels/shapes.h"

/* sixteen channels of a row of outputs */
typedef struct {
    const int8_t *const *rows;
    const int8_t *pad, *w;
    depthwise_row t; /* a copy, because a byte pointer like y may alias anything */
    int32_t o, n;    /* the first channel, how many count */
    words16 start;
    requant_lanes r;
} depthwise_lanes;

/* where a tap finds its inputs: `from`, and `next` bytes further for the next pixel */
typedef struct {
    const int8_t *from;
    ptrdiff_t next;
} tap_place;

/* tap (u, v) of pixel p; `whole`: it is inside the row */
ALWAYS_INLINE tap_place place_of(const int whole, const depthwise_lanes *d, int32_t p, int32_t u, int32_t v)
{
    const int32_t a = p * d->t.stride + v * d->t.dilation - d->t.left;
    const int inside = d->rows[u] && (whole || (a >= 0 && a < d->t.width));
    const tap_place pad = {d->pad, 0};
    const tap_place place = {d->rows[u] + (inside ? (ptrdiff_t)a * d->t.c + d->o : 0), (ptrdiff_t)d->t.stride * d->t.c};
    return inside ? place : pad;
}

ALWAYS_INLINE __m256i load_halves(const int full, const int8_t *from, int32_t n)
{
    return _mm256_cvtepi8_epi16(load_bytes(from, full ? 16 : n));
}

ALWAYS_INLINE words16 pairs_of(__m256i a, __m256i b)
{
    const words16 pairs = {{_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)}};
    return pairs;
}

ALWAYS_INLINE words16 add_products(words16 acc, words16 x, words16 w)
{
    const words16 products = {{_mm256_madd_epi16(x.v[0], w.v[0]), _mm256_madd_epi16(x.v[1], w.v[1])}};
    return add_words(acc, products);
}

/* acc += taps t and t + 1 of P pixels from p on: two rows u, columns v of the window */
ALWAYS_INLINE void depthwise_pair_s8(const int P, const int whole, const int full, words16 *acc,
                                     const depthwise_lanes *d, int32_t kw, int32_t taps, int32_t t, int32_t u, int32_t v,
                                     int32_t p)
{
    const int8_t *f = d->w + (ptrdiff_t)t * d->t.c;
    const int alone = t + 1 == taps, wraps = v + 1 == kw; /* alone: the second weight of the pair is zero */
    const tap_place a = place_of(whole, d, p, u, v);
    const tap_place b = alone ? a : place_of(whole, d, p, u + wraps, wraps ? 0 : v + 1);
    const __m256i second = alone ? _mm256_setzero_si256() : load_halves(full, f + d->t.c, d->n);
    const words16 w = pairs_of(load_halves(full, f, d->n), second);
    UNROLL
    for (int i = 0; i < P; i++) {
        const __m256i xa = load_halves(full, a.from + i * a.next, d->n);
        const __m256i xb = load_halves(full, b.from + i * b.next, d->n);
        acc[i] = add_products(acc[i], pairs_of(xa, xb), w);
    }
}

/* P pixels from p on, all of whose taps are inside the row if `whole`; otherwise P is 1. `nine`: the window is 3x3, and
 * its loop is unrolled */
ALWAYS_INLINE void depthwise_taps_s8(const int P, const int whole, const int full, const int nine, int8_t *y,
                                     uint8_t *mask, const depthwise_lanes *d, int32_t p)
{
    const int32_t kw = d->t.kw, taps = d->t.kh * kw;
    words16 acc[4];
    UNROLL
    for (int i = 0; i < P; i++) {
        acc[i] = d->start;
    }
    if (nine) {
        UNROLL
        for (int t = 0; t < 9; t += 2) {
            depthwise_pair_s8(P, whole, full, acc, d, 3, 9, t, t / 3, t % 3, p);
        }
    } else {
        int32_t u = 0, v = 0;
        ROLLED
        for (int32_t t = 0; t < taps; t += 2) {
            depthwise_pair_s8(P, whole, full, acc, d, kw, taps, t, u, v, p);
            for (v += 2; v >= kw; v -= kw) {
                u++;
            }
        }
    }
    UNROLL
    for (int i = 0; i < P; i++) {
        requant_store(y + (ptrdiff_t)(p + i) * d->t.c + d->o, mask_row(mask, p + i, d->t.c), acc[i], &d->r);
    }
}

/* the pixels first..last-1 of a row of outputs whose windows lie inside the row of inputs */
ALWAYS_INLINE tap_range whole_windows(const depthwise_row *t)
{
    const int32_t first = (t->left + t->stride - 1) / t->stride;
    const int32_t room = t->width + t->left - (t->kw - 1) * t->dilation;
    const int32_t last = room > 0 ? (room + t->stride - 1) / t->stride : 0;
    const tap_range found = {first < t->pixels ? first : t->pixels, last < t->pixels ? last : t->pixels};
    return found;
}

ALWAYS_INLINE void depthwise_pixels_s8(const int full, const int nine, int8_t *y, uint8_t *mask,
                                       const depthwise_lanes *d)
{
    const tap_range whole = whole_windows(&d->t);
    int32_t p = 0;
    while (p < d->t.pixels) {
        if (p >= whole.first && p + 4 <= whole.last) {
            depthwise_taps_s8(4, 1, full, nine, y, mask, d, p);
            p += 4;
        } else {
            depthwise_taps_s8(1, 0, full, nine, y, mask, d, p++);
        }
    }
}

static __attribute__((noinline, unused)) void avx2_depthwise_row_s8(int8_t *y, uint8_t *mask, const int8_t *const *rows,
                                                                    const int8_t *pad, const int8_t *w, const int32_t *b,
                                                                    const depthwise_row *t, const requant *q)
{
    const int32_t last = t->c >= 16 && t->c % 8 == 0 ? t->c - 16 : t->c; /* the last channels again, rather than few */
    for (int32_t next = 0; next < t->c; next += 16) {
        const int32_t o = next < last ? next : last < t->c ? last : next;
        const int32_t n = t->c - o < 16 ? t->c - o : 16;
        const depthwise_lanes d = {rows, pad + o, w + o, *t, o, n, load_words(b + o, n), requant_load(q, o, n)};
        if (n < 16) {
            depthwise_pixels_s8(0, 0, y, mask, &d);
        } else if (t->kh == 3 && t->kw == 3) {
            depthwise_pixels_s8(1, 1, y, mask, &d);
        } else {
            depthwise_pixels_s8(1, 0, y, mask, &d);
        }
    }
}
#define depthwise_row_s8 avx2_depthwise_row_s8

#endif
