/* primitives.h, the depthwise part: whole int8 images, sixteen channels at a time. Equal to rows of
 * scalar_depthwise_row_s8 in every bit.
 *
 * The inputs that some outputs need are widened to 16 bits, padding included, so that every window lies inside. Taps are
 * multiplied in pairs: a word has the inputs of a channel at two taps, another the two weights. Of an image with eight
 * channels, two pixels of a row are taken at once as sixteen channels.
 */
#ifndef INSITU_ISA_AVX2_DEPTHWISE_H
#define INSITU_ISA_AVX2_DEPTHWISE_H

#include "isa/avx2/requant.h"
#include "kernels/shapes.h"

enum { BAND_HALVES = 8192, BAND_TAPS = 64 }; /* widened inputs: 16 KB; taps of a window */
enum { ANY_END, SINGLE_END, LITERT_END };    /* how sums end: the last two have all lanes, no mask, no other shift */

/* the outputs of one image whose inputs are widened at once: rows from i on, columns from j on */
typedef struct {
    int32_t i, j, rows, columns, deep, wide; /* deep x wide inputs */
} depthwise_band;

/* the taps of a window, in pairs: their weights, and where their inputs are from the first one's on. A tap too many has
 * weights of zero. */
typedef struct {
    words16 w[BAND_TAPS / 2];
    int32_t at[BAND_TAPS];
} depthwise_taps;

/* channels of one image; `pitch` lanes per pixel: sixteen, or eight if a vector has two pixels */
typedef struct {
    int8_t *y;
    uint8_t *mask;
    const int8_t *x, *w;
    conv2d_shape s; /* a copy, because a byte pointer like y may alias anything */
    int32_t o, n, pitch, zero; /* the first channel, how many count */
    words16 start;
    requant_lanes r;
    __m256i y_zero;
    __m128i lo, hi;
} depthwise_lanes;

/* one pixel, widened */
ALWAYS_INLINE void widen_pixel(const int pitch, int16_t *to, const int8_t *from, int32_t n)
{
    if (pitch == 8) {
        _mm_storeu_si128((__m128i *)to, _mm_cvtepi8_epi16(_mm_cvtsi64_si128(eight_bytes(from))));
    } else {
        _mm256_storeu_si256((__m256i *)to, _mm256_cvtepi8_epi16(load_bytes(from, n)));
    }
}

ALWAYS_INLINE void widen_padding(const int pitch, int16_t *to, int32_t pixels, int32_t zero)
{
    for (int32_t i = 0; i < pixels * pitch; i += 8) {
        _mm_storeu_si128((__m128i *)(to + i), _mm_set1_epi16((int16_t)zero));
    }
}

/* the inputs of a band; `full`: sixteen channels, or eight with a pitch of eight */
ALWAYS_INLINE void widen_band(const int pitch, const int full, int16_t *to, const depthwise_lanes *d,
                              const depthwise_band *k)
{
    const conv2d_shape *s = &d->s;
    const int32_t column = k->j * s->sw - s->pl, n = full ? 16 : d->n;
    const int32_t before = column < 0 ? -column : 0, left = before < k->wide ? before : k->wide;
    const int32_t room = s->w - column, right = room < left ? left : room < k->wide ? room : k->wide;
    for (int32_t r = 0; r < k->deep; r++, to += k->wide * pitch) {
        const int32_t row = k->i * s->sh - s->pt + r;
        if (row < 0 || row >= s->h) {
            widen_padding(pitch, to, k->wide, d->zero);
            continue;
        }
        const int8_t *from = d->x + ((ptrdiff_t)row * s->w + column + left) * s->c + d->o;
        widen_padding(pitch, to, left, d->zero);
        for (int32_t q = left; q < right; q++, from += s->c) {
            widen_pixel(pitch, to + q * pitch, from, n);
        }
        widen_padding(pitch, to + right * pitch, k->wide - right, d->zero);
    }
}

ALWAYS_INLINE words16 pairs_of(__m256i a, __m256i b)
{
    const words16 pairs = {{_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)}};
    return pairs;
}

ALWAYS_INLINE __m256i weights_at(const depthwise_lanes *d, int32_t tap)
{
    const __m128i w = load_bytes(d->w + (ptrdiff_t)tap * d->s.o + d->o, d->n);
    return _mm256_cvtepi8_epi16(d->pitch == 8 ? _mm_unpacklo_epi64(w, w) : w);
}

ALWAYS_INLINE void load_taps(depthwise_taps *to, const depthwise_lanes *d)
{
    const int32_t taps = d->s.kh * d->s.kw;
    for (int32_t t = 0; t < taps; t += 2) {
        to->w[t / 2] = pairs_of(weights_at(d, t), t + 1 < taps ? weights_at(d, t + 1) : _mm256_setzero_si256());
    }
}

ALWAYS_INLINE void place_taps(depthwise_taps *to, const depthwise_lanes *d, const depthwise_band *k)
{
    const conv2d_shape *s = &d->s;
    int32_t t = 0;
    for (int32_t u = 0; u < s->kh; u++) {
        for (int32_t v = 0; v < s->kw; v++) {
            to->at[t++] = (u * s->dh * k->wide + v * s->dw) * d->pitch;
        }
    }
    if (t % 2) {
        to->at[t] = to->at[t - 1];
    }
}

ALWAYS_INLINE __m256i inputs_at(const int16_t *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

/* the sums of one vector of outputs, whose windows start at `from`, over two taps at a time */
ALWAYS_INLINE words16 sum_taps(const int nine, const int16_t *from, const depthwise_lanes *d, const depthwise_taps *taps)
{
    const int32_t count = nine ? 9 : d->s.kh * d->s.kw;
    __m256i low = d->start.v[0], high = d->start.v[1];
    UNROLL_SOME
    for (int32_t t = 0; t < count; t += 2) {
        const __m256i a = inputs_at(from + taps->at[t]), b = inputs_at(from + taps->at[t + 1]);
        low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), taps->w[t / 2].v[0]));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), taps->w[t / 2].v[1]));
        KEEP_VECTOR(low);
        KEEP_VECTOR(high);
    }
    const words16 sums = {{low, high}};
    return sums;
}

/* sixteen results of pixel p */
ALWAYS_INLINE void end_sums(const int end, int32_t p, words16 sums, const depthwise_lanes *d)
{
    int8_t *y = d->y + (ptrdiff_t)p * d->s.o + d->o;
    if (end == ANY_END) {
        requant_store(y, mask_row(d->mask, p, d->s.o), sums, &d->r);
        return;
    }
    const requant_eight *a = d->r.part, *b = d->r.part + 1;
    const __m256i low = end == SINGLE_END ? requant_single8(sums.v[0], a) : requant_litert8(sums.v[0], a);
    const __m256i high = end == SINGLE_END ? requant_single8(sums.v[1], b) : requant_litert8(sums.v[1], b);
    const __m128i v = packed(_mm256_adds_epi16(_mm256_packs_epi32(low, high), d->y_zero));
    _mm_storeu_si128((__m128i *)y, _mm_min_epi8(_mm_max_epi8(v, d->lo), d->hi));
}

/* the last pixel of a row, where a vector has two: its eight channels alone */
APART void end_half(int32_t p, words16 sums, const depthwise_lanes *d)
{
    int8_t y[16];
    uint8_t bits[2];
    requant_store(y, d->mask ? bits : NULL, sums, &d->r);
    __builtin_memcpy(d->y + (ptrdiff_t)p * 8, y, 8);
    if (d->mask) {
        d->mask[p] = bits[0];
    }
}

/* all outputs of a band */
ALWAYS_INLINE void depthwise_outputs(const int nine, const int end, const int16_t *halves, const depthwise_lanes *lanes,
                                     const depthwise_taps *taps, const depthwise_band *k)
{
    const depthwise_lanes copy = *lanes, *d = &copy;
    const int32_t each = d->pitch == 8 ? 2 : 1, step = d->s.sw * d->pitch;
    for (int32_t i = 0; i < k->rows; i++) {
        const int16_t *from = halves + (ptrdiff_t)i * d->s.sh * k->wide * d->pitch;
        const int32_t p = (k->i + i) * d->s.ow + k->j, columns = k->columns;
        int32_t j = 0;
        for (; j + each <= columns; j += each, from += each * step) {
            end_sums(end, p + j, sum_taps(nine, from, d, taps), d);
        }
        if (j < columns) {
            end_half(p + j, sum_taps(0, from, d, taps), lanes);
        }
    }
}

APART void depthwise_channels(int16_t *halves, const depthwise_lanes *d, depthwise_taps *taps, const depthwise_band *k)
{
    place_taps(taps, d, k);
    if (d->pitch == 8) {
        widen_band(8, 1, halves, d, k);
    } else if (d->n == 16) {
        widen_band(16, 1, halves, d, k);
    } else {
        widen_band(16, 0, halves, d, k);
    }
    const int plain = (d->n == 16 || d->pitch == 8) && !d->mask && !d->r.scalar;
    if (d->s.kh != 3 || d->s.kw != 3) {
        depthwise_outputs(0, ANY_END, halves, d, taps, k);
    } else if (!plain) {
        depthwise_outputs(1, ANY_END, halves, d, taps, k);
    } else if (d->r.litert) {
        depthwise_outputs(1, LITERT_END, halves, d, taps, k);
    } else {
        depthwise_outputs(1, SINGLE_END, halves, d, taps, k);
    }
}

/* the channels from o on; `twice`: eight of them, for two pixels */
ALWAYS_INLINE depthwise_lanes lanes_from(int32_t o, int32_t n, const int8_t *w, const int32_t *b, const conv2d_shape *s,
                                         const requant *q)
{
    depthwise_lanes d;
    d.w = w;
    d.s = *s;
    d.o = o;
    d.n = n;
    d.zero = q->x_zero;
    d.y_zero = _mm256_set1_epi16((int16_t)q->y_zero);
    d.lo = _mm_set1_epi8((int8_t)q->lo);
    d.hi = _mm_set1_epi8((int8_t)q->hi);
    d.start = load_words(b + o, n);
    d.r = requant_load(q, o, n);
    d.pitch = s->o == 8 && s->sw == 1 && !d.r.scalar ? 8 : 16;
    if (d.pitch == 8) {
        d.start = twice(d.start);
        d.r = requant_twice(&d.r);
    }
    return d;
}

/* as many outputs at once as there is room for the inputs of: whole rows if possible. No outputs: there is no room */
static inline depthwise_band band_of(const conv2d_shape *s)
{
    const int32_t tall = (s->kh - 1) * s->dh + 1, across = (s->kw - 1) * s->dw + 1, room = BAND_HALVES / 16 - 1;
    const int32_t most = room / tall < across ? 0 : (room / tall - across) / s->sw + 1;
    const int32_t columns = most < s->ow ? most : s->ow, wide = (columns - 1) * s->sw + across;
    const int32_t fit = columns ? (room / wide - tall) / s->sh + 1 : 0, rows = fit < s->oh ? fit : s->oh;
    const depthwise_band k = {0, 0, rows, columns, (rows - 1) * s->sh + tall, wide};
    return k;
}

/* the same from row i and column j on, but not beyond the image */
static inline depthwise_band band_at(depthwise_band k, int32_t i, int32_t j, const conv2d_shape *s)
{
    k.i = i;
    k.j = j;
    k.rows = s->oh - i < k.rows ? s->oh - i : k.rows;
    k.columns = s->ow - j < k.columns ? s->ow - j : k.columns;
    k.deep = (k.rows - 1) * s->sh + (s->kh - 1) * s->dh + 1;
    k.wide = (k.columns - 1) * s->sw + (s->kw - 1) * s->dw + 1;
    return k;
}

/* all outputs of one image for some channels */
ALWAYS_INLINE void depthwise_image(int16_t *halves, const depthwise_lanes *d, depthwise_taps *taps, depthwise_band first)
{
    for (int32_t i = 0; i < d->s.oh; i += first.rows) {
        for (int32_t j = 0; j < d->s.ow; j += first.columns) {
            const depthwise_band k = band_at(first, i, j, &d->s);
            depthwise_channels(halves, d, taps, &k);
        }
    }
}

/* returns 0, and nothing is done, if the inputs of one output do not fit */
static __attribute__((noinline, unused)) int avx2_depthwise_images_s8(int8_t *y, uint8_t *mask, const int8_t *x,
                                                                      const int8_t *w, const int32_t *b,
                                                                      const conv2d_shape *s, const requant *q)
{
    const depthwise_band first = band_of(s);
    if (!first.rows || s->kh * s->kw >= BAND_TAPS) {
        return 0;
    }
    __attribute__((aligned(64))) int16_t halves[BAND_HALVES];
    const int32_t last = s->o >= 16 && s->o % 8 == 0 ? s->o - 16 : s->o; /* the last channels again, rather than few */
    for (int32_t next = 0; next < s->o; next += 16) {
        const int32_t o = next < last ? next : last < s->o ? last : next;
        depthwise_lanes d = lanes_from(o, s->o - o < 16 ? s->o - o : 16, w, b, s, q);
        depthwise_taps taps;
        load_taps(&taps, &d);
        for (int32_t n = 0; n < s->n; n++) {
            d.y = y + (ptrdiff_t)n * s->oh * s->ow * s->o;
            d.mask = mask_row(mask, n * s->oh * s->ow, s->o);
            d.x = x + (ptrdiff_t)n * s->h * s->w * s->c;
            depthwise_image(halves, &d, &taps, first);
        }
    }
    return 1;
}
#define depthwise_images_s8 avx2_depthwise_images_s8

#endif
