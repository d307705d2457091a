/* Requantisation of sixteen sums at a time, both roundings, equal to requant.h in every bit. */
#ifndef INSITU_ISA_AVX512_REQUANT_H
#define INSITU_ISA_AVX512_REQUANT_H

#include <immintrin.h>

#include "requant.h"

/* what sixteen channels need, loaded once for many rows */
typedef struct {
    const requant *q;
    int32_t channel;
    int slow;                          /* a multiplier above one with single rounding: 32 bits may not hold the result */
    __m512i m, m_odd, left, right;     /* left: of litert; right: of litert, or of the even lanes of single */
    __m512i right_odd, half, half_odd; /* rounding terms: single; mask and half of it: litert */
} requant_lanes;

static inline __attribute__((always_inline)) requant_lanes requant_load(const requant *q, int32_t channel, __mmask16 k)
{
    requant_lanes r;
    const __m512i one = _mm512_set1_epi64(1), low = _mm512_set1_epi64(0xffffffff);
    __m512i shift;
    if (q->step) {
        r.m = _mm512_maskz_loadu_epi32(k, q->m + channel);
        shift = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, q->shift + channel));
    } else {
        r.m = _mm512_set1_epi32(q->m[0]);
        shift = _mm512_set1_epi32(q->shift[0]);
    }
    r.q = q;
    r.channel = channel;
    r.slow = 0;
    r.m_odd = _mm512_srli_epi64(r.m, 32);
    if (q->rounding == REQUANT_LITERT) {
        r.left = _mm512_max_epi32(shift, _mm512_setzero_si512());
        r.right = _mm512_sub_epi32(r.left, shift);
        r.half_odd = _mm512_sub_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(1), r.right), _mm512_set1_epi32(1));
        r.half = _mm512_srli_epi32(r.half_odd, 1);
        r.right_odd = r.right;
    } else {
        const __m512i s = _mm512_sub_epi32(_mm512_set1_epi32(31), shift);
        r.slow = _mm512_cmpgt_epi32_mask(shift, _mm512_setzero_si512()) != 0;
        r.left = shift;
        r.right = _mm512_and_si512(s, low);
        r.right_odd = _mm512_srli_epi64(s, 32);
        r.half = _mm512_sllv_epi64(one, _mm512_sub_epi64(r.right, one));
        r.half_odd = _mm512_sllv_epi64(one, _mm512_sub_epi64(r.right_odd, one));
    }
    return r;
}

static inline __attribute__((always_inline)) __m512i requant_litert16(__m512i acc, const requant_lanes *r)
{
    const __m512i nudge = _mm512_set1_epi64(1 << 30), x = _mm512_sllv_epi32(acc, r->left);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, r->m), nudge);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), r->m_odd), nudge);
    const __m512i high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    const __m512i rest = _mm512_and_si512(high, r->half_odd);
    const __m512i limit = _mm512_sub_epi32(r->half, _mm512_srai_epi32(high, 31));
    const __m512i down = _mm512_srav_epi32(high, r->right);
    return _mm512_mask_add_epi32(down, _mm512_cmpgt_epi32_mask(rest, limit), down, _mm512_set1_epi32(1));
}

static inline __attribute__((always_inline)) __m512i requant_single16(__m512i acc, const requant_lanes *r)
{
    __m512i even = _mm512_add_epi64(_mm512_mul_epi32(acc, r->m), r->half);
    __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(acc, 32), r->m_odd), r->half_odd);
    even = _mm512_srav_epi64(even, r->right);
    odd = _mm512_srav_epi64(odd, r->right_odd);
    return _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}

/* y = requantised acc, for the lanes k */
static inline __attribute__((always_inline)) void requant_store(int8_t *y, __mmask16 k, __m512i acc,
                                                                const requant_lanes *r)
{
    const requant *q = r->q;
    if (__builtin_expect(r->slow, 0)) {
        int32_t sums[16];
        _mm512_storeu_si512(sums, acc);
        for (int i = 0; i < 16; i++) {
            if (k >> i & 1) {
                y[i] = requant_at(sums[i], r->channel + i, q);
            }
        }
        return;
    }
    __m512i v = q->rounding == REQUANT_LITERT ? requant_litert16(acc, r) : requant_single16(acc, r);
    v = _mm512_max_epi32(v, _mm512_set1_epi32(q->lo - q->y_zero));
    v = _mm512_min_epi32(v, _mm512_set1_epi32(q->hi - q->y_zero));
    v = _mm512_add_epi32(v, _mm512_set1_epi32(q->y_zero));
    _mm_mask_storeu_epi8(y, k, _mm512_cvtepi32_epi8(v));
}

#endif
