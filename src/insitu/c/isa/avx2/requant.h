/* Requantisation of sixteen sums at a time, both roundings, equal to numbers/requant.h in every bit.
 *
 * With a multiplier below one half (single) or of at most one (litert):
 *   single   y = (x m + 2^(s-1)) >> s, s = 31 - shift >= 32: the upper word of the sum, shifted by s - 32
 *   litert   h = (x m + 2^30) >> 31, y = (h >> r) + (rest of h > 2^(r-1) - (h >= 0)), r = -shift
 * All of it fits 32 bits. y is then saturated to 16 bits, gets its zero point there, and is saturated to 8 bits, which
 * changes only values that the clamp changes, too.
 */
#ifndef INSITU_ISA_AVX2_REQUANT_H
#define INSITU_ISA_AVX2_REQUANT_H

#include "isa/avx2/some.h"

#include "numbers/requant.h"

/* the data of eight channels */
typedef struct {
    __m256i m, m_odd, right;
    __m256i more, rest; /* single: 2^(s-1), 64 bits, of even and of odd lanes; litert: 2^r - 1, and half of it as `more` */
} requant_eight;

/* the data of sixteen channels, loaded once for many rows */
typedef struct {
    const requant *q;
    int32_t channel, n; /* the first of them; how many count, at most sixteen */
    int litert;
    int scalar; /* a shift for which the formulas above do not hold */
    requant_eight part[2];
} requant_lanes;

ALWAYS_INLINE __m256i odd_lanes(__m256i v)
{
    return _mm256_srli_epi64(v, 32);
}

/* one of the two parts */
ALWAYS_INLINE void requant_constants(requant_lanes *r, int part, __m256i m, __m256i shift)
{
    requant_eight *e = r->part + part;
    const __m256i one = _mm256_set1_epi32(1), zero = _mm256_setzero_si256();
    const __m256i right = _mm256_sub_epi32(r->litert ? zero : _mm256_set1_epi32(-1), shift);
    r->scalar |= _mm256_movemask_epi8(_mm256_or_si256(_mm256_cmpgt_epi32(zero, right),
                                                      _mm256_cmpgt_epi32(right, _mm256_set1_epi32(31))));
    e->m = m;
    e->m_odd = odd_lanes(m);
    e->right = right;
    if (r->litert) {
        e->rest = _mm256_sub_epi32(_mm256_sllv_epi32(one, right), one);
        e->more = _mm256_srli_epi32(e->rest, 1);
    } else {
        const __m256i half = _mm256_set1_epi64x((int64_t)1 << 31), low = _mm256_set1_epi64x(31);
        e->more = _mm256_sllv_epi64(half, _mm256_and_si256(right, low));
        e->rest = _mm256_sllv_epi64(half, odd_lanes(right));
    }
}

/* channels channel..channel+n-1 */
ALWAYS_INLINE requant_lanes requant_load(const requant *q, int32_t channel, int32_t n)
{
    requant_lanes r;
    words16 m, shift;
    r.q = q;
    r.channel = channel;
    r.n = n;
    r.litert = q->rounding == REQUANT_LITERT;
    r.scalar = 0;
    if (q->step) {
        m = load_words(q->m + channel, n);
        shift = widened(load_bytes(q->shift + channel, n));
    } else {
        m.v[0] = m.v[1] = _mm256_set1_epi32(q->m[0]);
        shift.v[0] = shift.v[1] = _mm256_set1_epi32(q->shift[0]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) { /* 0 is 0 at any shift: -1 has formulas */
        const __m256i none = _mm256_cmpeq_epi32(m.v[i], _mm256_setzero_si256());
        requant_constants(&r, i, m.v[i], _mm256_or_si256(shift.v[i], none));
    }
    return r;
}

/* the lanes of eight channels, and the same again: for two pixels that lie side by side. Needs !r->scalar */
ALWAYS_INLINE requant_lanes requant_twice(const requant_lanes *r)
{
    requant_lanes both = *r;
    UNROLL
    for (int i = 0; i < 2; i++) {
        const requant_eight *e = r->part + i;
        const requant_eight again = {low_twice(e->m), low_twice(e->m_odd), low_twice(e->right), low_twice(e->more),
                                     low_twice(e->rest)};
        both.part[i] = again;
    }
    both.n = 16;
    return both;
}

ALWAYS_INLINE __m256i requant_single8(__m256i x, const requant_eight *e)
{
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(x, e->m), e->more);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(odd_lanes(x), e->m_odd), e->rest);
    return _mm256_srav_epi32(_mm256_blend_epi32(odd_lanes(even), odd, 0xaa), e->right);
}

ALWAYS_INLINE __m256i requant_litert8(__m256i x, const requant_eight *e)
{
    const __m256i half = _mm256_set1_epi64x(1 << 30);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(x, e->m), half);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(odd_lanes(x), e->m_odd), half);
    const __m256i h = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xaa);
    const __m256i most = _mm256_sub_epi32(e->more, _mm256_srai_epi32(h, 31));
    const __m256i up = _mm256_cmpgt_epi32(_mm256_and_si256(h, e->rest), most);
    return _mm256_sub_epi32(_mm256_srav_epi32(h, e->right), up);
}

/* sixteen results in order, before the clamp, saturated to 16 bits; needs !r->scalar */
ALWAYS_INLINE __m256i requant_halves(words16 x, const requant_lanes *r)
{
    __m256i low, high;
    if (r->litert) {
        low = requant_litert8(x.v[0], r->part);
        high = requant_litert8(x.v[1], r->part + 1);
    } else {
        low = requant_single8(x.v[0], r->part);
        high = requant_single8(x.v[1], r->part + 1);
    }
    return _mm256_adds_epi16(_mm256_packs_epi32(low, high), _mm256_set1_epi16((int16_t)r->q->y_zero));
}

/* sixteen halves of words as bytes, in order, with saturation */
ALWAYS_INLINE __m128i packed(__m256i v)
{
    return _mm_packs_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/* sixteen results, clamped */
ALWAYS_INLINE __m128i clamped(__m256i v, const requant *q)
{
    return _mm_min_epi8(_mm_max_epi8(packed(v), _mm_set1_epi8((int8_t)q->lo)), _mm_set1_epi8((int8_t)q->hi));
}

/* bit i: is result i not clamped? */
ALWAYS_INLINE uint32_t inside_bits(__m256i v, const requant *q)
{
    const __m256i above = _mm256_cmpgt_epi16(v, _mm256_set1_epi16((int16_t)q->hi));
    const __m256i below = _mm256_cmpgt_epi16(_mm256_set1_epi16((int16_t)q->lo), v);
    return ~(uint32_t)_mm_movemask_epi8(packed(_mm256_or_si256(above, below)));
}

static __attribute__((noinline, unused)) void requant_scalar16(int8_t *y, uint8_t *mask, words16 x,
                                                               const requant_lanes *r)
{
    int32_t sums[16];
    store_words(sums, x);
    for (int32_t i = 0; i < r->n; i++) {
        y[i] = requant_masked(mask, sums[i], r->channel + i, r->q);
    }
}

/* y[i] = requantised sum of channel r->channel + i, i < r->n. `mask` is the row of bits of all channels, or null;
 * r->channel is a multiple of 8 if there is one. */
ALWAYS_INLINE void requant_store(int8_t *y, uint8_t *mask, words16 x, const requant_lanes *r)
{
    if (__builtin_expect(r->scalar, 0)) {
        requant_scalar16(y, mask, x, r);
        return;
    }
    const __m256i v = requant_halves(x, r);
    store_bytes(y, r->n, clamped(v, r->q));
    if (mask) {
        const uint32_t bits = inside_bits(v, r->q) & ((1u << r->n) - 1u);
        mask[r->channel / 8] = (uint8_t)bits;
        if (r->n > 8) {
            mask[r->channel / 8 + 1] = (uint8_t)(bits >> 8);
        }
    }
}

#endif
