/* primitives.h, the depthwise part: a row of int8 outputs, sixteen channels at a time. Equal to scalar_depthwise_row_s8 in every
 * bit.
 */
#ifndef INSITU_ISA_AVX512_DEPTHWISE_H
#define INSITU_ISA_AVX512_DEPTHWISE_H

#include "isa/avx512/bytes.h"

#include "isa/avx512/requant.h"
#include "kernels/shapes.h"

ALWAYS_INLINE __m512i load_s8(const int full, __mmask16 k, const int8_t *from)
{
    return _mm512_cvtepi8_epi32(full ? _mm_loadu_si128((const __m128i *)from) : _mm_maskz_loadu_epi8(k, from));
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

/* sixteen channels of a row of pixels with a 3x3 window: the values that stay in registers along the row. A row of taps
 * above or below the image is in `start`, and its weights are zero. */
typedef struct {
    __m512i f[9], start;
    const int8_t *base[3], *pad; /* at the first of the channels */
} rows_3x3;

ALWAYS_INLINE rows_3x3 load_3x3(const int full, __mmask16 k, const int8_t *const *rows, const int8_t *pad,
                                const int8_t *w, const int32_t *b, int32_t c)
{
    rows_3x3 d = {.start = _mm512_maskz_loadu_epi32(k, b), .pad = pad};
    const int8_t *some = rows[0] ? rows[0] : rows[1] ? rows[1] : rows[2];
    UNROLL
    for (int i = 0; i < 9; i++) {
        /* the upper half of each weight is zero, so that dpwssd adds one product and not two */
        d.f[i] = _mm512_and_si512(load_s8(full, k, w + i * c), _mm512_set1_epi32(0xffff));
        if (!rows[i / 3]) {
            d.start = _mm512_dpwssd_epi32(d.start, load_s8(full, k, pad), d.f[i]);
            d.f[i] = _mm512_setzero_si512();
        }
    }
    UNROLL
    for (int u = 0; u < 3; u++) {
        d.base[u] = rows[u] ? rows[u] : some;
    }
    return d;
}

/* pixel p, some of whose taps may lie left or right of the image */
ALWAYS_INLINE __m512i edge_3x3(const int full, __mmask16 k, const rows_3x3 *d, int32_t p, int32_t o,
                               const depthwise_row *t)
{
    __m512i acc = d->start;
    UNROLL
    for (int v = 0; v < 3; v++) {
        const int32_t a = p * t->stride - t->left + v * t->dilation;
        const int inside = a >= 0 && a < t->width;
        UNROLL
        for (int u = 0; u < 3; u++) {
            const int8_t *from = inside ? d->base[u] + a * t->c + o : d->pad;
            acc = _mm512_dpwssd_epi32(acc, load_s8(full, k, from), d->f[3 * u + v]);
        }
    }
    return acc;
}

ALWAYS_INLINE void depthwise_3x3_s8(const int full, int8_t *y, uint8_t *mask, const int8_t *const *rows, const int8_t *pad,
                                    const int8_t *w, const int32_t *b, const depthwise_row *row, const requant *q,
                                    int32_t o)
{
    const depthwise_row copy = *row, *t = &copy; /* a copy, because a byte pointer like y may alias anything */
    const __mmask16 k = lanes16(t->c - o);
    const requant_lanes r = requant_load(q, o, k);
    const rows_3x3 d = load_3x3(full, k, rows, pad + o, w + o, b + o, t->c);
    const tap_range whole = whole_windows(t);
    int32_t p = 0;
    y += o;
    for (; p < whole.first; p++, y += t->c) {
        const __m512i acc = edge_3x3(full, k, &d, p, o, t);
        requant_store(1, y, 0, k, &acc, 1, &r);
        requant_masks(1, mask_row(mask, p, t->c), 0, k, &acc, 1, &r);
    }
    const ptrdiff_t next = (ptrdiff_t)t->dilation * t->c, step = (ptrdiff_t)t->stride * t->c;
    ptrdiff_t at = p * step - (ptrdiff_t)t->left * t->c + o;
    for (; p < whole.last; p++, y += t->c, at += step) {
        __m512i acc = d.start;
        UNROLL
        for (int u = 0; u < 3; u++) {
            acc = _mm512_dpwssd_epi32(acc, load_s8(full, k, d.base[u] + at), d.f[3 * u]);
            acc = _mm512_dpwssd_epi32(acc, load_s8(full, k, d.base[u] + at + next), d.f[3 * u + 1]);
            acc = _mm512_dpwssd_epi32(acc, load_s8(full, k, d.base[u] + at + 2 * next), d.f[3 * u + 2]);
        }
        requant_store(1, y, 0, k, &acc, 1, &r);
        requant_masks(1, mask_row(mask, p, t->c), 0, k, &acc, 1, &r);
    }
    for (; p < t->pixels; p++, y += t->c) {
        const __m512i acc = edge_3x3(full, k, &d, p, o, t);
        requant_store(1, y, 0, k, &acc, 1, &r);
        requant_masks(1, mask_row(mask, p, t->c), 0, k, &acc, 1, &r);
    }
}

/* P pixels from p on, all of whose taps are inside the row, or one, which is checked tap by tap */
ALWAYS_INLINE void depthwise_taps_s8(const int P, const int whole, int8_t *y, uint8_t *mask, const int8_t *const *rows,
                                     const int8_t *pad, const int8_t *w, __m512i start, const depthwise_row *t,
                                     int32_t p, int32_t o, __mmask16 k, const requant_lanes *r)
{
    const __m512i low = _mm512_set1_epi32(0xffff);
    const ptrdiff_t step = (ptrdiff_t)t->stride * t->c;
    __m512i acc[8];
    UNROLL
    for (int i = 0; i < P; i++) {
        acc[i] = start;
    }
    const int8_t *f = w + o;
    for (int32_t u = 0; u < t->kh; u++) {
        for (int32_t v = 0; v < t->kw; v++, f += t->c) {
            const int32_t a = p * t->stride + v * t->dilation - t->left;
            const int inside = rows[u] && (whole || (a >= 0 && a < t->width));
            const int8_t *from = inside ? rows[u] + (ptrdiff_t)a * t->c + o : pad + o;
            const ptrdiff_t next = inside ? step : 0;
            const __m512i fk = _mm512_and_si512(load_s8(0, k, f), low);
            UNROLL
            for (int i = 0; i < P; i++) {
                acc[i] = _mm512_dpwssd_epi32(acc[i], load_s8(0, k, from + i * next), fk);
            }
        }
    }
    requant_store(P, y + (ptrdiff_t)p * t->c + o, t->c, k, acc, 1, r);
    requant_masks(P, mask_row(mask, p, t->c), (t->c + 7) / 8, k, acc, 1, r);
}

ALWAYS_INLINE void depthwise_any_s8(int8_t *y, uint8_t *mask, const int8_t *const *rows, const int8_t *pad,
                                    const int8_t *w, const int32_t *b, const depthwise_row *row, const requant *q,
                                    int32_t o)
{
    const depthwise_row copy = *row, *t = &copy; /* a copy, because a byte pointer like y may alias anything */
    const __mmask16 k = lanes16(t->c - o);
    const requant_lanes r = requant_load(q, o, k);
    const __m512i start = _mm512_maskz_loadu_epi32(k, b + o);
    const tap_range whole = whole_windows(t);
    int32_t p = 0;
    for (; p < whole.first; p++) {
        depthwise_taps_s8(1, 0, y, mask, rows, pad, w, start, t, p, o, k, &r);
    }
    for (; p + 4 <= whole.last; p += 4) {
        depthwise_taps_s8(4, 1, y, mask, rows, pad, w, start, t, p, o, k, &r);
    }
    for (; p < t->pixels; p++) {
        depthwise_taps_s8(1, 0, y, mask, rows, pad, w, start, t, p, o, k, &r);
    }
}

static __attribute__((noinline, unused)) void avx512_depthwise_row_s8(int8_t *y, uint8_t *mask, const int8_t *const *rows, const int8_t *pad, const int8_t *w,
                                           const int32_t *b, const depthwise_row *t, const requant *q)
{
    for (int32_t o = 0; o < t->c; o += 16) {
        if (t->kh != 3 || t->kw != 3 || !(rows[0] || rows[1] || rows[2])) {
            depthwise_any_s8(y, mask, rows, pad, w, b, t, q, o);
        } else if (o + 16 <= t->c) {
            depthwise_3x3_s8(1, y, mask, rows, pad, w, b, t, q, o);
        } else {
            depthwise_3x3_s8(0, y, mask, rows, pad, w, b, t, q, o);
        }
    }
}
#define depthwise_row_s8 avx512_depthwise_row_s8

#endif
