/* Requantisation of four times sixteen sums in a few instructions less than requant.h, equal to it in every bit.
 *
 * Of sums within 2^30, h + offset does not overflow: it needs no clamp before the shift, and the offset goes into the
 * 64-bit sums that round h. The results are clamped as bytes, all 64 at once. With a lower bound not below the zero
 * point, what (h < 0) changes is clamped away: it is left out.
 */
#ifndef INSITU_ISA_AVX512_FOURS_H
#define INSITU_ISA_AVX512_FOURS_H

#include "isa/avx512/requant.h"

/* the data of sixteen channels: see requant_lanes */
typedef struct {
    int possible, away; /* do the formulas hold; does (h < 0) count */
    __mmask16 big, negative;
    __m512i m2, m2_odd, even, odd, offset, right, lo, hi;
} requant_fours;

ALWAYS_INLINE requant_fours requant_fours_from(const requant_lanes *r)
{
    const requant *q = r->q;
    const __m512i half = _mm512_set1_epi64(r->litert ? (int64_t)1 << 31 : 0);
    requant_fours f;
    f.possible = !r->scalar && _mm512_test_epi32_mask(r->first, r->first) == 0;
    f.away = r->litert && q->lo < q->y_zero;
    f.big = r->big;
    f.negative = r->negative;
    f.m2 = r->m2;
    f.m2_odd = r->m2_odd;
    f.even = _mm512_or_si512(_mm512_slli_epi64(r->offset, 32), half);
    f.odd = _mm512_mask_mov_epi32(half, 0xaaaa, r->offset);
    f.offset = r->offset;
    f.right = r->right;
    f.lo = _mm512_set1_epi8((int8_t)q->lo);
    f.hi = _mm512_set1_epi8((int8_t)q->hi);
    return f;
}

/* sixteen results that are not clamped yet */
ALWAYS_INLINE __m512i requant_wide(const int away, __m512i x, const requant_fours *f)
{
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, f->m2), f->even);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), f->m2_odd), f->odd);
    __m512i h = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
    h = _mm512_mask_add_epi32(h, f->big, h, x);
    if (away) {
        const __mmask16 below = _mm512_mask_cmplt_epi32_mask(f->negative, h, f->offset);
        h = _mm512_mask_sub_epi32(h, below, h, _mm512_set1_epi32(1));
    }
    return _mm512_srav_epi32(h, f->right);
}

/* 64 results, those of x[0] first */
ALWAYS_INLINE __m512i requant_bytes(const int away, const __m512i *x, const requant_fours *f)
{
    const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i low = _mm512_packs_epi32(requant_wide(away, x[0], f), requant_wide(away, x[1], f));
    const __m512i high = _mm512_packs_epi32(requant_wide(away, x[2], f), requant_wide(away, x[3], f));
    const __m512i v = _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(low, high), f->lo), f->hi);
    return _mm512_permutexvar_epi32(turn, v);
}

/* sixteen bytes to each of y, y + step, y + 2 step, y + 3 step */
ALWAYS_INLINE void store_fours(int8_t *y, ptrdiff_t step, __m512i v)
{
    if (step == 16) {
        _mm512_storeu_si512(y, v);
        return;
    }
    _mm_storeu_si128((__m128i *)y, _mm512_castsi512_si128(v));
    _mm_storeu_si128((__m128i *)(y + step), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i *)(y + 2 * step), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i *)(y + 3 * step), _mm512_extracti32x4_epi32(v, 3));
}

#endif
