/* Half of the vectors of lanes.h: eight floats, with the masks of whole ones. Some processors multiply two of them in the
 * time of a whole one, and none takes longer.
 */
#ifndef INSITU_ISA_AVX512_HALF_H
#define INSITU_ISA_AVX512_HALF_H

#include "isa/avx512/bytes.h"

#include "isa/inline.h"

#define INSITU_HALF_LANES 1
enum { HALF_LANES = 8, HALF_ROWS_1 = 12, HALF_ROWS_3 = 8 };
typedef __m256 vh;

ALWAYS_INLINE vh vh_load(__mmask16 k, const float *p)
{
    return _mm256_maskz_loadu_ps((__mmask8)k, p);
}

ALWAYS_INLINE vh vh_full(const float *p)
{
    return _mm256_loadu_ps(p);
}

ALWAYS_INLINE vh vh_load_s8(__mmask16 k, const int8_t *p, int32_t zero)
{
    const __m256i v = _mm256_cvtepi8_epi32(_mm_maskz_loadu_epi8(k & 0xff, p));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(v, _mm256_set1_epi32(zero)));
}

ALWAYS_INLINE void vh_store(float *p, __mmask16 k, vh v)
{
    _mm256_mask_storeu_ps(p, (__mmask8)k, v);
}

ALWAYS_INLINE void vh_put(float *p, vh v)
{
    _mm256_storeu_ps(p, v);
}

ALWAYS_INLINE vh vh_set(float a)
{
    return _mm256_set1_ps(a);
}

ALWAYS_INLINE vh vh_zero(void)
{
    return _mm256_setzero_ps();
}

ALWAYS_INLINE vh vh_fma(vh a, vh b, vh c)
{
    return _mm256_fmadd_ps(a, b, c);
}

ALWAYS_INLINE vh vh_add(vh a, vh b)
{
    return _mm256_add_ps(a, b);
}

ALWAYS_INLINE vh vh_min(vh a, vh b)
{
    return _mm256_min_ps(a, b);
}

ALWAYS_INLINE vh vh_max(vh a, vh b)
{
    return _mm256_max_ps(a, b);
}

#endif
