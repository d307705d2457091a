/* primitives.h, the depthwise part: a row of int8 outputs, sixteen channels at a time. Equal to scalar_depthwise_row_s8
 * in every bit.
 *
 * Taps are multiplied in pairs: a word has the inputs of a channel at two taps, another the two weights. Of an image with
 * eight channels, two pixels of a row are taken at once as sixteen channels.
 */
#ifndef INSITU_ISA_AVX2_DEPTHWISE_H
#define INSITU_ISA_AVX2_DEPTHWISE_H

#include "isa/avx2/requant.h"
#include "kernels/shapes.h"

enum { SOME, ALL, TWICE }; /* what sixteen lanes are: n channels, sixteen of them, or eight channels of two pixels */
enum { NINE_PAIRS = 5 };

/* sixteen channels of a row of outputs */
typedef struct {
    const int8_t *const *rows;
    const int8_t *pad, *w;
    depthwise_row t; /* a copy, because a byte pointer like y may alias anything */
    int32_t o, n;    /* the first channel, how many count */
    words16 start;
    words16 nine[NINE_PAIRS]; /* the weights of a 3x3 window */
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

/* the inputs of vector i of a tap */
ALWAYS_INLINE __m256i inputs_at(const int kind, tap_place place, const int i, int32_t n)
{
    if (kind == TWICE) {
        const int8_t *from = place.from + 2 * i * place.next;
        return _mm256_cvtepi8_epi16(_mm_set_epi64x(eight_bytes(from + place.next), eight_bytes(from)));
    }
    return _mm256_cvtepi8_epi16(load_bytes(place.from + i * place.next, kind == ALL ? 16 : n));
}

ALWAYS_INLINE __m256i weights_at(const int kind, const int8_t *from, int32_t n)
{
    return _mm256_cvtepi8_epi16(kind == TWICE ? _mm_set1_epi64x(eight_bytes(from)) : load_bytes(from, kind == ALL ? 16 : n));
}

ALWAYS_INLINE words16 pairs_of(__m256i a, __m256i b)
{
    const words16 pairs = {{_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)}};
    return pairs;
}

/* the weights of taps t and t + 1; those of a tap too many are zero */
ALWAYS_INLINE words16 tap_weights(const int kind, const depthwise_lanes *d, int32_t taps, int32_t t)
{
    const int8_t *f = d->w + (ptrdiff_t)t * d->t.c;
    const __m256i second = t + 1 == taps ? _mm256_setzero_si256() : weights_at(kind, f + d->t.c, d->n);
    return pairs_of(weights_at(kind, f, d->n), second);
}

ALWAYS_INLINE words16 add_products(words16 acc, words16 x, words16 w)
{
    const words16 products = {{_mm256_madd_epi16(x.v[0], w.v[0]), _mm256_madd_epi16(x.v[1], w.v[1])}};
    return add_words(acc, products);
}

/* acc += taps t and t + 1 of P vectors from pixel p on: two rows u, columns v of the window */
ALWAYS_INLINE void depthwise_pair_s8(const int P, const int whole, const int kind, words16 *acc, words16 w,
                                     const depthwise_lanes *d, int32_t kw, int32_t taps, int32_t t, int32_t u, int32_t v,
                                     int32_t p)
{
    const int alone = t + 1 == taps, wraps = v + 1 == kw; /* alone: the second weight of the pair is zero */
    const tap_place a = place_of(whole, d, p, u, v);
    const tap_place b = alone ? a : place_of(whole, d, p, u + wraps, wraps ? 0 : v + 1);
    UNROLL
    for (int i = 0; i < P; i++) {
        const words16 x = pairs_of(inputs_at(kind, a, i, d->n), inputs_at(kind, b, i, d->n));
        acc[i] = add_products(acc[i], x, w);
    }
}

/* P vectors from pixel p on, all of whose taps are inside the row if `whole`; otherwise P is 1. `nine`: the window is
 * 3x3, and its loop is unrolled */
ALWAYS_INLINE void depthwise_taps_s8(const int P, const int whole, const int kind, const int nine, int8_t *y,
                                     uint8_t *mask, const depthwise_lanes *d, int32_t p)
{
    const int32_t kw = d->t.kw, taps = d->t.kh * kw, each = kind == TWICE ? 2 : 1;
    words16 acc[4];
    UNROLL
    for (int i = 0; i < P; i++) {
        acc[i] = d->start;
    }
    if (nine) {
        UNROLL
        for (int t = 0; t < 9; t += 2) {
            depthwise_pair_s8(P, whole, kind, acc, d->nine[t / 2], d, 3, 9, t, t / 3, t % 3, p);
        }
    } else {
        int32_t u = 0, v = 0;
        ROLLED
        for (int32_t t = 0; t < taps; t += 2) {
            depthwise_pair_s8(P, whole, kind, acc, tap_weights(kind, d, taps, t), d, kw, taps, t, u, v, p);
            for (v += 2; v >= kw; v -= kw) {
                u++;
            }
        }
    }
    UNROLL
    for (int i = 0; i < P; i++) {
        const int32_t at = p + i * each;
        requant_store(y + (ptrdiff_t)at * d->t.c + d->o, mask_row(mask, at, d->t.c), acc[i], &d->r);
    }
}

/* the pixels first..last-1 of a row of outputs whose windows lie inside the row of inputs */
ALWAYS_INLINE tap_range whole_windows(const depthwise_row *t)
{
    const int one = t->stride == 1; /* usual, and divisions are slow */
    const int32_t first = one ? t->left : (t->left + t->stride - 1) / t->stride;
    const int32_t room = t->width + t->left - (t->kw - 1) * t->dilation;
    const int32_t last = room <= 0 ? 0 : one ? room : (room + t->stride - 1) / t->stride;
    const tap_range found = {first < t->pixels ? first : t->pixels, last < t->pixels ? last : t->pixels};
    return found;
}

/* a row of outputs; `edges` has the lanes of single pixels, which are those of d unless a vector has two pixels */
ALWAYS_INLINE void depthwise_pixels_s8(const int kind, const int nine, int8_t *y, uint8_t *mask, depthwise_lanes *d,
                                       const depthwise_lanes *edges, tap_range whole)
{
    const int32_t each = kind == TWICE ? 2 : 1;
    int32_t p = 0;
    UNROLL
    for (int i = 0; nine && i < NINE_PAIRS; i++) {
        d->nine[i] = tap_weights(kind, d, 9, 2 * i);
    }
    while (p < d->t.pixels) {
        if (p >= whole.first && p + 4 * each <= whole.last) {
            depthwise_taps_s8(4, 1, kind, nine, y, mask, d, p);
            p += 4 * each;
        } else if (nine && p >= whole.first && p + each <= whole.last) {
            depthwise_taps_s8(1, 1, kind, nine, y, mask, d, p);
            p += each;
        } else {
            depthwise_taps_s8(1, 0, kind == TWICE ? SOME : kind, kind != TWICE && nine, y, mask, edges, p++);
        }
    }
}

/* the lanes of eight channels, for two pixels */
ALWAYS_INLINE depthwise_lanes two_pixels(const depthwise_lanes *one)
{
    depthwise_lanes d = *one;
    d.start = twice(d.start);
    d.r = requant_twice(&one->r);
    return d;
}

static __attribute__((noinline, unused)) void avx2_depthwise_row_s8(int8_t *y, uint8_t *mask, const int8_t *const *rows,
                                                                    const int8_t *pad, const int8_t *w, const int32_t *b,
                                                                    const depthwise_row *t, const requant *q)
{
    const int32_t last = t->c >= 16 && t->c % 8 == 0 ? t->c - 16 : t->c; /* the last channels again, rather than few */
    const int nine = t->kh == 3 && t->kw == 3;
    const tap_range whole = whole_windows(t);
    for (int32_t next = 0; next < t->c; next += 16) {
        const int32_t o = next < last ? next : last < t->c ? last : next;
        const int32_t n = t->c - o < 16 ? t->c - o : 16;
        depthwise_lanes d;
        d.rows = rows;
        d.pad = pad + o;
        d.w = w + o;
        d.t = *t;
        d.o = o;
        d.n = n;
        d.start = load_words(b + o, n);
        d.r = requant_load(q, o, n);
        if (t->c == 8 && nine && !d.r.scalar) {
            depthwise_lanes both = two_pixels(&d);
            depthwise_pixels_s8(TWICE, 1, y, mask, &both, &d, whole);
        } else if (n < 16) {
            depthwise_pixels_s8(SOME, 0, y, mask, &d, &d, whole);
        } else if (nine) {
            depthwise_pixels_s8(ALL, 1, y, mask, &d, &d, whole);
        } else {
            depthwise_pixels_s8(ALL, 0, y, mask, &d, &d, whole);
        }
    }
}
#define depthwise_row_s8 avx2_depthwise_row_s8

#endif
