/* primitives.h, the depthwise part: int8 outputs of 3x3 windows, and rows of those of any other, sixteen channels at a time.
 * Equal to scalar_depthwise_row_s8 in every bit.
 */
#ifndef INSITU_ISA_AVX512_DEPTHWISE_H
#define INSITU_ISA_AVX512_DEPTHWISE_H

#include "isa/avx512/bytes.h"

#include "isa/avx512/requant.h"
#include "kernels/shapes.h"

ALWAYS_INLINE __m128i load_bytes16(const int full, __mmask16 k, const int8_t *from)
{
    return full ? _mm_loadu_si128((const __m128i *)from) : _mm_maskz_loadu_epi8(k, from);
}

ALWAYS_INLINE __m512i load_s8(const int full, __mmask16 k, const int8_t *from)
{
    return _mm512_cvtepi8_epi32(load_bytes16(full, k, from));
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

/* sixteen channels of a row of pixels with a 3x3 window: what stays in registers along the row. Three values under one
 * another, of one channel, are bytes of one lane, so that three instructions multiply all nine. Values are raised by 128
 * for it, which `start` makes up for. */
typedef struct {
    __m512i f[3], start, outside;
    const int8_t *row[3];
    int32_t next[3]; /* bytes to the pixel on the right: 0 in a row of padding */
} rows_3x3;

/* lane i: a[i], b[i], c[i] and a byte that does not count */
ALWAYS_INLINE __m512i columns_of(const int full, __mmask16 k, const int8_t *a, const int8_t *b, const int8_t *c)
{
    const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i fours = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i v = _mm512_castsi128_si512(load_bytes16(full, k, a));
    v = _mm512_inserti32x4(v, load_bytes16(full, k, b), 1);
    v = _mm512_inserti32x4(v, load_bytes16(full, k, c), 2);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(turn, v), fours);
}

ALWAYS_INLINE __m512i raised(__m512i columns)
{
    return _mm512_xor_si512(columns, _mm512_set1_epi8(-128));
}

ALWAYS_INLINE rows_3x3 load_3x3(const int full, __mmask16 k, const int8_t *pad, const int8_t *w, const int32_t *b,
                                int32_t c)
{
    rows_3x3 d = {.start = _mm512_maskz_loadu_epi32(k, b), .outside = raised(columns_of(full, k, pad, pad, pad))};
    UNROLL
    for (int i = 0; i < 3; i++) {
        const __m512i three = columns_of(full, k, w + i * c, w + (3 + i) * c, w + (6 + i) * c);
        d.f[i] = _mm512_and_si512(three, _mm512_set1_epi32(0xffffff));
        const __m512i too_much = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(-128), d.f[i]);
        d.start = _mm512_sub_epi32(d.start, too_much);
    }
    return d;
}

/* row u under the window, from the first channel on; null: padding */
ALWAYS_INLINE void place_row(rows_3x3 *d, int u, const int8_t *row, const int8_t *pad, int32_t c)
{
    d->row[u] = row ? row : pad;
    d->next[u] = row ? c : 0;
}

/* the values under one another at pixel q of the inputs, which may lie left or right of the image */
ALWAYS_INLINE __m512i column_at(const int full, __mmask16 k, const rows_3x3 *d, int32_t q, int32_t width)
{
    if (q < 0 || q >= width) {
        return d->outside;
    }
    return raised(columns_of(full, k, d->row[0] + q * d->next[0], d->row[1] + q * d->next[1], d->row[2] + q * d->next[2]));
}

/* all pixels of a row; each has `kept` of its three columns from the pixel before it */
ALWAYS_INLINE void pixels_3x3(const int full, const int kept, int8_t *y, uint8_t *mask, const rows_3x3 *given,
                              __mmask16 k, const depthwise_row *t, const requant_lanes *r)
{
    const rows_3x3 d = *given;
    __m512i column[3];
    int32_t q = -t->left;
    UNROLL
    for (int v = 0; v < kept; v++) {
        column[3 - kept + v] = column_at(full, k, &d, q + v * t->dilation, t->width);
    }
    for (int32_t p = 0; p < t->pixels; p++, y += t->c, q += t->stride) {
        __m512i acc = d.start;
        UNROLL
        for (int v = 0; v < 3; v++) {
            column[v] = v < kept ? column[3 - kept + v] : column_at(full, k, &d, q + v * t->dilation, t->width);
            acc = _mm512_dpbusd_epi32(acc, column[v], d.f[v]);
        }
        requant_store(1, y, 0, k, &acc, 1, r);
        requant_masks(1, mask_row(mask, p, t->c), 0, k, &acc, 1, r);
    }
}

ALWAYS_INLINE void row_3x3(const int full, int8_t *y, uint8_t *mask, const rows_3x3 *d, __mmask16 k,
                           const depthwise_row *t, const requant_lanes *r)
{
    if (t->stride == 1 && t->dilation == 1) {
        pixels_3x3(full, 2, y, mask, d, k, t, r);
    } else if (t->stride == 2 && t->dilation == 1) {
        pixels_3x3(full, 1, y, mask, d, k, t, r);
    } else {
        pixels_3x3(full, 0, y, mask, d, k, t, r);
    }
}

/* a whole convolution: where its results, inputs and parameters are */
typedef struct {
    int8_t *y;
    uint8_t *mask;
    const int8_t *x, *pad, *w;
    const int32_t *b;
    const conv2d_shape *s;
    const requant *q;
} images_3x3;

/* the rows of outputs `band` of image n, sixteen channels from o on */
ALWAYS_INLINE void band_3x3(const int full, const images_3x3 *a, int32_t n, tap_range band, int32_t o)
{
    const conv2d_shape copy = *a->s, *s = &copy; /* a copy, because a byte pointer like y may alias anything */
    const depthwise_row t = {s->ow, s->c, 3, 3, s->sw, s->dw, s->pl, s->w};
    const __mmask16 k = lanes16(s->o - o);
    const requant_lanes r = requant_load(a->q, o, k);
    const int8_t *x = a->x + (ptrdiff_t)n * s->h * s->w * s->c + o;
    rows_3x3 d = load_3x3(full, k, a->pad, a->w + o, a->b + o, s->c);
    for (int32_t i = band.first; i < band.last; i++) {
        const int32_t p = (n * s->oh + i) * s->ow;
        for (int u = 0; u < 3; u++) {
            const int32_t at = i * s->sh + u * s->dh - s->pt;
            place_row(&d, u, at >= 0 && at < s->h ? x + (ptrdiff_t)at * s->w * s->c : NULL, a->pad, s->c);
        }
        row_3x3(full, a->y + (ptrdiff_t)p * s->o + o, mask_row(a->mask, p, s->o), &d, k, &t, &r);
    }
}

enum { BAND_BYTES = 16384 }; /* inputs that stay in the first-level cache while all their channels are used */

static __attribute__((noinline, unused)) int avx512_depthwise_images_s8(int8_t *y, uint8_t *mask, const int8_t *x,
                                                                        const int8_t *w, const int32_t *b,
                                                                        const conv2d_shape *s, const requant *q)
{
    int8_t pad[16];
    const images_3x3 a = {y, mask, x, pad, w, b, s, q};
    const int32_t row = s->sh * s->w * s->c, rows = row < BAND_BYTES ? BAND_BYTES / row : 1;
    if (s->kh != 3 || s->kw != 3) {
        return 0;
    }
    _mm_storeu_si128((__m128i *)pad, _mm_set1_epi8((int8_t)q->x_zero));
    for (int32_t n = 0; n < s->n; n++) {
        for (int32_t i = 0; i < s->oh; i += rows) {
            const tap_range band = {i, i + rows < s->oh ? i + rows : s->oh};
            int32_t o = 0;
            for (; o + 16 <= s->o; o += 16) {
                band_3x3(1, &a, n, band, o);
            }
            if (o < s->o) {
                band_3x3(0, &a, n, band, o);
            }
        }
    }
    return 1;
}
#define depthwise_images_s8 avx512_depthwise_images_s8

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

static __attribute__((noinline, unused)) void avx512_depthwise_row_s8(int8_t *y, uint8_t *mask, const int8_t *const *rows,
                                                                      const int8_t *pad, const int8_t *w,
                                                                      const int32_t *b, const depthwise_row *t,
                                                                      const requant *q)
{
    for (int32_t o = 0; o < t->c; o += 16) {
        depthwise_any_s8(y, mask, rows, pad, w, b, t, q, o);
    }
}
#define depthwise_row_s8 avx512_depthwise_row_s8

#endif
