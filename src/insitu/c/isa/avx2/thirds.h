/* thirds.h for AVX2: eight pixels at a time. In the comments, a, b and c are the planes; each half of a vector has four of
 * their pixels. */
#ifndef INSITU_ISA_AVX2_THIRDS_H
#define INSITU_ISA_AVX2_THIRDS_H

#include "isa/avx2/intrinsics.h"

static inline void avx2_thirds_f32(float *restrict y, const float *restrict x, int32_t pixels)
{
    int32_t p = 0;
    for (; p + 8 <= pixels; p += 8, y += 24) {
        const __m256 a = _mm256_loadu_ps(x + p), b = _mm256_loadu_ps(x + pixels + p);
        const __m256 c = _mm256_loadu_ps(x + 2 * (ptrdiff_t)pixels + p);
        const __m256 ab = _mm256_shuffle_ps(a, b, 0x88);        /* a0 a2 b0 b2 */
        const __m256 bc = _mm256_shuffle_ps(b, c, 0xdd);        /* b1 b3 c1 c3 */
        const __m256 ca = _mm256_shuffle_ps(c, a, 0xd8);        /* c0 c2 a1 a3 */
        const __m256 first = _mm256_shuffle_ps(ab, ca, 0x88);   /* a0 b0 c0 a1 */
        const __m256 second = _mm256_shuffle_ps(bc, ab, 0xd8);  /* b1 c1 a2 b2 */
        const __m256 third = _mm256_shuffle_ps(ca, bc, 0xdd);   /* c2 a3 b3 c3 */
        _mm256_storeu_ps(y, _mm256_permute2f128_ps(first, second, 0x20));
        _mm256_storeu_ps(y + 8, _mm256_permute2f128_ps(third, first, 0x30));
        _mm256_storeu_ps(y + 16, _mm256_permute2f128_ps(second, third, 0x31));
    }
    thirds_rest(y - 3 * (ptrdiff_t)p, x, p, pixels);
}
#define thirds_f32 avx2_thirds_f32

#endif
