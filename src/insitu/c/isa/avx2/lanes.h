/* isa/lanes.h for x86 with AVX2 and FMA: eight lanes, sixteen registers. */
#ifndef INSITU_ISA_AVX2_LANES_H
#define INSITU_ISA_AVX2_LANES_H

#include "isa/avx2/intrinsics.h"

#include "isa/inline.h"

#define INSITU_LANES 1
enum { LANES = 8, MATRIX_ROWS_1 = 8, MATRIX_ROWS_2 = 6, MATRIX_ROWS_3 = 4 };
#define MATRIX_ROWS_4 0
typedef __m256 vf;
typedef __m256i vm;

/* a vector that stays in a register: compilers would load it again for each use */
#define VF_KEEP(a) __asm__("" : "+x"(a))

ALWAYS_INLINE vm lanes(int32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

ALWAYS_INLINE vm lanes_of(uint32_t bits)
{
    const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int32_t)bits), each), each);
}

ALWAYS_INLINE vf vf_load(vm k, const float *p)
{
    return _mm256_maskload_ps(p, k);
}

ALWAYS_INLINE vf vf_full(const float *p)
{
    return _mm256_loadu_ps(p);
}

/* no byte outside the lanes may be read */
ALWAYS_INLINE vf vf_load_s8(vm k, const int8_t *p, int32_t zero)
{
    const int n = __builtin_popcount((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(k)));
    int64_t eight = 0;
    if (n == 8) {
        __builtin_memcpy(&eight, p, 8);
    } else {
        int8_t some[8] = {0};
        for (int i = 0; i < n; i++) {
            some[i] = p[i];
        }
        __builtin_memcpy(&eight, some, 8);
    }
    const __m256i v = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(eight));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(v, _mm256_set1_epi32(zero)));
}

/* the first lanes, as many as k has: a masked store takes as long as ten plain ones on some machines */
ALWAYS_INLINE void vf_store(float *p, vm k, vf v)
{
    const int n = __builtin_popcount((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(k)));
    __m128 rest = _mm256_castps256_ps128(v);
    if (n == 8) {
        _mm256_storeu_ps(p, v);
        return;
    }
    if (n & 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(v, 1);
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

ALWAYS_INLINE void vf_store_parts(float *p, vm k, vf v)
{
    vf_store(p, k, v);
}

ALWAYS_INLINE void vf_put(float *p, vf v)
{
    _mm256_storeu_ps(p, v);
}

ALWAYS_INLINE vf vf_set(float a)
{
    return _mm256_set1_ps(a);
}

ALWAYS_INLINE vf vf_zero(void)
{
    return _mm256_setzero_ps();
}

ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

ALWAYS_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

ALWAYS_INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

ALWAYS_INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

ALWAYS_INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

/* of two numbers one of which is not a number, the second */
ALWAYS_INLINE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

ALWAYS_INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

ALWAYS_INLINE vf vf_above(vf g, vf y, vf lo)
{
    return _mm256_and_ps(_mm256_cmp_ps(lo, y, _CMP_LT_OQ), g);
}

ALWAYS_INLINE vf vf_between(vf g, vf y, vf lo, vf hi)
{
    const __m256 above = _mm256_cmp_ps(lo, y, _CMP_LT_OQ), below = _mm256_cmp_ps(y, hi, _CMP_LT_OQ);
    return _mm256_and_ps(_mm256_and_ps(above, below), g);
}

#endif
