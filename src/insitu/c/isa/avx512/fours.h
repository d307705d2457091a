/* Requantisation of four times sixteen sums in fewer instructions than requant.h, equal to it in every bit.
 *
 * Of sums within 2^30, h + offset does not overflow: it needs no clamp before the shift, and the offset goes into the
 * 64-bit sums that round h. Sums come as u = x + 2^30, which is not negative: u (2m) is a product of unsigned numbers,
 * and the same 64-bit sums take 2^30 (2m) away. Bit 30 of u says that x is not negative: it is added, and the offset is
 * one less. (h < 0 where x < 0, but for x = -1 and m = 2^30 or 0, where both terms round to the same.) With a lower
 * bound not below the zero point, what (h < 0) changes is clamped away: it is left out. The results are clamped as
 * bytes, all 64 at once.
 */
#ifndef INSITU_ISA_AVX512_FOURS_H
#define INSITU_ISA_AVX512_FOURS_H

#include "isa/avx512/requant.h"
#include "isa/tile_ready.h"

enum { FOURS_RAISED = 1 << 30 };

/* the data of sixteen channels in registers */
typedef struct {
    __m512i m2, m2_odd, even, odd, sign, right, lo, hi;
} requant_fours;

/* m and shift of the channels k; 0 is 0 at any shift */
ALWAYS_INLINE __m512i fours_multipliers(__m512i *right, const requant *q, int32_t channel, __mmask16 k)
{
    __m512i m = _mm512_set1_epi32(q->m[0]), shift = _mm512_set1_epi32(q->shift[0]);
    if (q->step) {
        m = _mm512_maskz_loadu_epi32(k, q->m + channel);
        shift = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, q->shift + channel));
    }
    const __m512i negated = _mm512_sub_epi32(_mm512_setzero_si512(), shift);
    *right = _mm512_mask_mov_epi32(negated, _mm512_testn_epi32_mask(m, m), _mm512_set1_epi32(1));
    return m;
}

/* everything but where sums start; possible: do the formulas hold; away: does (h < 0) count */
ALWAYS_INLINE void fours_prepare(tile_outputs *to, const requant *q, int32_t channel, __mmask16 k)
{
    const int litert = q->rounding == REQUANT_LITERT;
    const __m512i one = _mm512_set1_epi32(1), raised = _mm512_set1_epi32(FOURS_RAISED);
    const __m512i half = _mm512_set1_epi64(litert ? (int64_t)1 << 31 : 0);
    __m512i right;
    const __m512i m2 = _mm512_slli_epi32(fours_multipliers(&right, q, channel, k), 1);
    const __m512i least = _mm512_set1_epi32(litert ? 0 : 1), most = _mm512_set1_epi32(22);
    to->possible = (_mm512_cmplt_epi32_mask(right, least) | _mm512_cmpgt_epi32_mask(right, most)) == 0;
    to->away = litert && q->lo < q->y_zero;
    to->lo = q->lo;
    to->hi = q->hi;
    const __mmask16 counts = to->away ? _mm512_test_epi32_mask(right, right) : 0;
    __m512i offset = _mm512_srai_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(2 * q->y_zero + 1), right), 1);
    offset = _mm512_mask_sub_epi32(offset, counts, offset, one);
    const __m512i even = _mm512_add_epi64(_mm512_slli_epi64(offset, 32), half);
    const __m512i odd = _mm512_mask_mov_epi32(half, 0xaaaa, offset);
    _mm512_storeu_si512(to->m2, m2);
    _mm512_storeu_si512(to->right, right);
    _mm512_storeu_si512(to->sign, _mm512_mask_mov_epi32(_mm512_set1_epi32(31), counts, _mm512_set1_epi32(30)));
    _mm512_storeu_si512(to->even, _mm512_sub_epi64(even, _mm512_mul_epu32(m2, raised)));
    _mm512_storeu_si512(to->odd, _mm512_sub_epi64(odd, _mm512_mul_epu32(_mm512_srli_epi64(m2, 32), raised)));
}

ALWAYS_INLINE requant_fours fours_load(const tile_outputs *from)
{
    const __m512i m2 = _mm512_loadu_si512(from->m2);
    const requant_fours f = {m2, _mm512_srli_epi64(m2, 32), _mm512_loadu_si512(from->even),
                             _mm512_loadu_si512(from->odd), _mm512_loadu_si512(from->sign),
                             _mm512_loadu_si512(from->right), _mm512_set1_epi8((int8_t)from->lo),
                             _mm512_set1_epi8((int8_t)from->hi)};
    return f;
}

/* sixteen results that are not clamped yet */
ALWAYS_INLINE __m512i requant_wide(const int away, __m512i u, const requant_fours *f)
{
    const __m512i even = _mm512_add_epi64(_mm512_mul_epu32(u, f->m2), f->even);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epu32(_mm512_srli_epi64(u, 32), f->m2_odd), f->odd);
    __m512i h = _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
    if (away) {
        h = _mm512_add_epi32(h, _mm512_srlv_epi32(u, f->sign));
    }
    return _mm512_srav_epi32(h, f->right);
}

/* 64 results, those of u[0] first */
ALWAYS_INLINE __m512i requant_bytes(const int away, const __m512i *u, const requant_fours *f)
{
    const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i low = _mm512_packs_epi32(requant_wide(away, u[0], f), requant_wide(away, u[1], f));
    const __m512i high = _mm512_packs_epi32(requant_wide(away, u[2], f), requant_wide(away, u[3], f));
    const __m512i v = _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(low, high), f->lo), f->hi);
    return _mm512_permutexvar_epi32(turn, v);
}

/* sixteen bytes to each of y, y + step and so on, n rows */
ALWAYS_INLINE void store_fours(const int n, int8_t *y, ptrdiff_t step, __m512i v)
{
    if (n == 4 && step == 16) {
        _mm512_storeu_si512(y, v);
        return;
    }
    _mm_storeu_si128((__m128i *)y, _mm512_castsi512_si128(v));
    if (n > 1) {
        _mm_storeu_si128((__m128i *)(y + step), _mm512_extracti32x4_epi32(v, 1));
    }
    if (n > 2) {
        _mm_storeu_si128((__m128i *)(y + 2 * step), _mm512_extracti32x4_epi32(v, 2));
    }
    if (n > 3) {
        _mm_storeu_si128((__m128i *)(y + 3 * step), _mm512_extracti32x4_epi32(v, 3));
    }
}

#endif
