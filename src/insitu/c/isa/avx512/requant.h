/* Requantisation of sixteen sums at a time, both roundings, equal to requant.h in every bit.
 *
 * With a multiplier below one, shift = -r, and h = x m / 2^31 (litert: rounded half up; single: rounded down):
 *   litert   y = (h + 2^(r-1) - (h < 0)) >> r, without the two terms for r = 0
 *   single   y = (h + 2^(r-1)) >> r for r > 0: rounding down first changes nothing
 * Of a shift beyond 22 the rest is done first, which changes nothing either. Both rise with h, so that h can be clamped
 * instead of y, to the bounds shifted left; then nothing overflows, and the zero point, shifted left, goes into the
 * same addition as 2^(r-1). h itself is the upper half of x (2m), where 2m as a signed number is 2m - 2^32: x is added
 * to make up for it.
 */
#ifndef INSITU_ISA_AVX512_REQUANT_H
#define INSITU_ISA_AVX512_REQUANT_H

#include "isa/avx512/bytes.h"

#include "isa/inline.h"

#include "numbers/requant.h"

/* lanes 0..n-1 of sixteen */
ALWAYS_INLINE __mmask16 lanes16(int32_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);
}

ALWAYS_INLINE __mmask64 lanes64(int32_t n)
{
    return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
}

/* the data of sixteen channels, loaded once for many rows */
typedef struct {
    const requant *q;
    int32_t channel;
    int litert;
    int scalar;             /* a shift for which the formulas above do not hold */
    __mmask16 big, negative; /* where 2m wraps; where (h < 0) counts */
    __m512i m2, m2_odd, first, right, lowest, highest, offset;
} requant_lanes;

ALWAYS_INLINE requant_lanes requant_load(const requant *q, int32_t channel, __mmask16 k)
{
    requant_lanes r;
    const int litert = q->rounding == REQUANT_LITERT;
    const __m512i one = _mm512_set1_epi32(1);
    __m512i m, shift;
    if (q->step) {
        m = _mm512_maskz_loadu_epi32(k, q->m + channel);
        shift = _mm512_mask_cvtepi8_epi32(_mm512_set1_epi32(-1), k, _mm_maskz_loadu_epi8(k, q->shift + channel));
    } else {
        m = _mm512_set1_epi32(q->m[0]);
        shift = _mm512_set1_epi32(q->shift[0]);
    }
    r.q = q;
    r.channel = channel;
    r.litert = litert;
    r.right = _mm512_sub_epi32(_mm512_setzero_si512(), shift);
    r.right = _mm512_mask_mov_epi32(r.right, _mm512_testn_epi32_mask(m, m), one); /* 0 is 0 at any shift */
    r.scalar = _mm512_cmplt_epi32_mask(r.right, _mm512_set1_epi32(litert ? 0 : 1)) != 0;
    r.big = _mm512_cmpge_epi32_mask(m, _mm512_set1_epi32(1 << 30));
    r.negative = litert ? _mm512_cmpgt_epi32_mask(r.right, _mm512_setzero_si512()) : 0;
    r.first = _mm512_max_epi32(_mm512_sub_epi32(r.right, _mm512_set1_epi32(22)), _mm512_setzero_si512());
    r.right = _mm512_sub_epi32(r.right, r.first);
    r.m2 = _mm512_slli_epi32(m, 1);
    r.m2_odd = _mm512_srli_epi64(r.m2, 32);
    r.lowest = _mm512_sllv_epi32(_mm512_set1_epi32(q->lo - q->y_zero), r.right);
    r.highest = _mm512_sllv_epi32(_mm512_set1_epi32(q->hi - q->y_zero), r.right);
    r.offset = _mm512_add_epi32(_mm512_srli_epi32(_mm512_sllv_epi32(one, r.right), 1),
                                _mm512_sllv_epi32(_mm512_set1_epi32(q->y_zero), r.right));
    return r;
}

/* x m / 2^31, where m2 = 2m, odd lanes moved down in m2_odd, and `big` says where 2m wrapped */
ALWAYS_INLINE __m512i high16(const int round, __m512i x, __m512i m2, __m512i m2_odd, __mmask16 big)
{
    __m512i even = _mm512_mul_epi32(x, m2), odd = _mm512_mul_epi32(_mm512_srli_epi64(x, 32), m2_odd);
    if (round) {
        const __m512i half = _mm512_set1_epi64((int64_t)1 << 31);
        even = _mm512_add_epi64(even, half);
        odd = _mm512_add_epi64(odd, half);
    }
    const __m512i h = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
    return _mm512_mask_add_epi32(h, big, h, x);
}

/* sixteen results, in the low byte of each lane; needs !r->scalar */
ALWAYS_INLINE __m512i requant_lanes16(const int litert, __m512i x, const requant_lanes *r)
{
    __m512i h = high16(litert, x, r->m2, r->m2_odd, r->big);
    if (litert) {
        h = _mm512_add_epi32(h, _mm512_maskz_srai_epi32(r->negative, h, 31));
    }
    h = _mm512_srav_epi32(h, r->first);
    h = _mm512_min_epi32(_mm512_max_epi32(h, r->lowest), r->highest);
    return _mm512_srav_epi32(_mm512_add_epi32(h, r->offset), r->right);
}

static __attribute__((noinline, unused)) void requant_scalar16(int8_t *y, __mmask16 k, __m512i acc, int32_t channel,
                                                               const requant *q)
{
    int32_t sums[16];
    _mm512_storeu_si512(sums, acc);
    for (int i = 0; i < 16; i++) {
        if (k >> i & 1) {
            y[i] = requant_at(sums[i], channel + i, q);
        }
    }
}

/* the low bytes of the lanes k; a masked narrowing store is slow, so it is avoided if all sixteen count */
ALWAYS_INLINE void store_bytes(int8_t *y, __mmask16 k, __m512i v)
{
    if (k == 0xffff) {
        _mm_storeu_si128((__m128i *)y, _mm512_cvtepi32_epi8(v));
    } else {
        _mm_mask_storeu_epi8(y, k, _mm512_cvtepi32_epi8(v));
    }
}

/* the low bytes of the lanes of four results, one after the other; needs !r->scalar */
ALWAYS_INLINE __m512i requant_four(const int litert, const __m512i *acc, const requant_lanes *r)
{
    __m512i all = _mm512_setzero_si512();
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(requant_lanes16(litert, acc[0], r)), 0);
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(requant_lanes16(litert, acc[1], r)), 1);
    all = _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(requant_lanes16(litert, acc[2], r)), 2);
    return _mm512_inserti32x4(all, _mm512_cvtepi32_epi8(requant_lanes16(litert, acc[3], r)), 3);
}

/* y[p*step + i] = requantised acc[p*stride] for p < P, the lanes k */
ALWAYS_INLINE void requant_store(const int P, int8_t *y, ptrdiff_t step, __mmask16 k, const __m512i *acc,
                                 const int stride, const requant_lanes *r)
{
    if (__builtin_expect(r->scalar, 0)) {
        UNROLL
        for (int p = 0; p < P; p++) {
            requant_scalar16(y + p * step, k, acc[p * stride], r->channel, r->q);
        }
    } else if (r->litert) {
        UNROLL
        for (int p = 0; p < P; p++) {
            store_bytes(y + p * step, k, requant_lanes16(1, acc[p * stride], r));
        }
    } else {
        UNROLL
        for (int p = 0; p < P; p++) {
            store_bytes(y + p * step, k, requant_lanes16(0, acc[p * stride], r));
        }
    }
}

/* where sixteen results are not clamped; needs !r->scalar. With half = 2^(right-1), y >= lo is h >= lowest - half. */
ALWAYS_INLINE __mmask16 inside_lanes16(const int litert, __m512i x, const requant_lanes *r)
{
    __m512i h = high16(litert, x, r->m2, r->m2_odd, r->big);
    if (litert) {
        h = _mm512_add_epi32(h, _mm512_maskz_srai_epi32(r->negative, h, 31));
    }
    h = _mm512_srav_epi32(h, r->first);
    const __m512i one = _mm512_sllv_epi32(_mm512_set1_epi32(1), r->right), half = _mm512_srli_epi32(one, 1);
    const __m512i above = _mm512_add_epi32(r->highest, _mm512_sub_epi32(one, half));
    return _mm512_cmpge_epi32_mask(h, _mm512_sub_epi32(r->lowest, half)) & _mm512_cmplt_epi32_mask(h, above);
}

static __attribute__((noinline, unused)) __mmask16 inside_scalar16(__mmask16 k, __m512i acc, const requant_lanes *r)
{
    int32_t sums[16];
    uint32_t found = 0;
    _mm512_storeu_si512(sums, acc);
    for (int i = 0; i < 16; i++) {
        if (k >> i & 1) {
            const int64_t y = requant_value(sums[i], r->channel + i, r->q);
            found |= (uint32_t)(y >= r->q->lo && y <= r->q->hi) << i;
        }
    }
    return (__mmask16)found;
}

/* the bits of P rows from r->channel on; a row of the mask is `step` bytes after the one before. Null: nothing to do */
ALWAYS_INLINE void requant_masks(const int P, uint8_t *mask, ptrdiff_t step, __mmask16 k, const __m512i *acc,
                                 const int stride, const requant_lanes *r)
{
    if (__builtin_expect(mask != NULL, 0)) {
        mask += r->channel / 8;
        for (int p = 0; p < P; p++, mask += step) {
            const __m512i x = acc[p * stride];
            const uint32_t bits = k & (r->scalar ? inside_scalar16(k, x, r) : inside_lanes16(r->litert, x, r));
            mask[0] = (uint8_t)bits;
            if (k > 0xff) {
                mask[1] = (uint8_t)(bits >> 8);
            }
        }
    }
}

#endif
