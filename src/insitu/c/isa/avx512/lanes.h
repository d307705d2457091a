/* isa/lanes.h for x86 with AVX-512: sixteen lanes, thirty-two registers. */
#ifndef INSITU_ISA_AVX512_LANES_H
#define INSITU_ISA_AVX512_LANES_H

#include "isa/avx512/bytes.h"
#include "isa/avx512/half.h"

#include "isa/inline.h"

#define INSITU_LANES 1
enum { LANES = 16, MATRIX_ROWS_1 = 12, MATRIX_ROWS_2 = 12, MATRIX_ROWS_3 = 8 };
#define MATRIX_ROWS_4 5
typedef __m512 vf;
typedef __mmask16 vm;

/* a vector that stays in a register: compilers would load it again for each use */
#define VF_KEEP(a) __asm__("" : "+v"(a))

ALWAYS_INLINE vm lanes(int32_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);
}

ALWAYS_INLINE vm lanes_of(uint32_t bits)
{
    return (__mmask16)bits;
}

ALWAYS_INLINE vf vf_load(vm k, const float *p)
{
    return _mm512_maskz_loadu_ps(k, p);
}

ALWAYS_INLINE vf vf_full(const float *p)
{
    return _mm512_loadu_ps(p);
}

ALWAYS_INLINE vf vf_load_s8(vm k, const int8_t *p, int32_t zero)
{
    const __m512i v = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, p));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(v, _mm512_set1_epi32(zero)));
}

ALWAYS_INLINE void vf_store(float *p, vm k, vf v)
{
    _mm512_mask_storeu_ps(p, k, v);
}

ALWAYS_INLINE void vf_put(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

/* in parts of 8, 4, 2 and 1: a masked store counts as one of all lanes when a later load looks for what it waits for */
ALWAYS_INLINE void vf_store_parts(float *p, vm k, vf v)
{
    const int n = __builtin_popcount(k);
    __m256 eight = _mm512_castps512_ps256(v);
    if (n == 8) { /* usual */
        _mm256_storeu_ps(p, eight);
        return;
    }
    if (n == 16) {
        _mm512_storeu_ps(p, v);
        return;
    }
    if (n & 8) {
        _mm256_storeu_ps(p, eight);
        eight = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
        p += 8;
    }
    __m128 rest = _mm256_castps256_ps128(eight);
    if (n & 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(eight, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)p, rest);
        rest = _mm_movehl_ps(rest, rest);
        p += 2;
    }
    if (n & 1) {
        _mm_store_ss(p, rest);
    }
}

ALWAYS_INLINE vf vf_set(float a)
{
    return _mm512_set1_ps(a);
}

ALWAYS_INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}

ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

ALWAYS_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

ALWAYS_INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

ALWAYS_INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

ALWAYS_INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

/* of two numbers one of which is not a number, the second */
ALWAYS_INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

ALWAYS_INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

ALWAYS_INLINE vf vf_above(vf g, vf y, vf lo)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(lo, y, _CMP_LT_OQ), g);
}

ALWAYS_INLINE vf vf_between(vf g, vf y, vf lo, vf hi)
{
    const __mmask16 k = _mm512_cmp_ps_mask(lo, y, _CMP_LT_OQ) & _mm512_cmp_ps_mask(y, hi, _CMP_LT_OQ);
    return _mm512_maskz_mov_ps(k, g);
}

#endif
