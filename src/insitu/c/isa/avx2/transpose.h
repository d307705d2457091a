/* transpose.h for AVX2, and for AVX-512, whose gathers take longer: blocks of eight by eight floats, in registers. */
#ifndef INSITU_ISA_AVX2_TRANSPOSE_H
#define INSITU_ISA_AVX2_TRANSPOSE_H

#include "isa/avx2/intrinsics.h"
#include "isa/inline.h"

/* in each half of a vector: elements k and k + 1 of two rows side by side */
ALWAYS_INLINE void transpose_pairs(__m256 *to, const __m256 *from)
{
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        to[i] = _mm256_unpacklo_ps(from[i], from[i + 1]);
        to[i + 1] = _mm256_unpackhi_ps(from[i], from[i + 1]);
    }
}

/* the same of four rows, from pairs */
ALWAYS_INLINE void transpose_fours(__m256 *to, const __m256 *from)
{
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        to[i] = _mm256_shuffle_ps(from[i], from[i + 2], 0x44);
        to[i + 1] = _mm256_shuffle_ps(from[i], from[i + 2], 0xee);
        to[i + 2] = _mm256_shuffle_ps(from[i + 1], from[i + 3], 0x44);
        to[i + 3] = _mm256_shuffle_ps(from[i + 1], from[i + 3], 0xee);
    }
}

ALWAYS_INLINE void transpose_block(float *y, int32_t y_row, const float *x, int32_t x_row)
{
    __m256 a[8], b[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        a[i] = _mm256_loadu_ps(x + (ptrdiff_t)i * x_row);
    }
    transpose_pairs(b, a);
    transpose_fours(a, b);
    UNROLL
    for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps(y + (ptrdiff_t)j * y_row, _mm256_permute2f128_ps(a[j], a[j + 4], 0x20));
        _mm256_storeu_ps(y + (ptrdiff_t)(j + 4) * y_row, _mm256_permute2f128_ps(a[j], a[j + 4], 0x31));
    }
}

static inline void transpose_f32(float *y, int32_t y_row, const float *x, int32_t x_row, int32_t rows, int32_t cols)
{
    const int32_t whole_rows = rows / 8 * 8, whole_cols = cols / 8 * 8;
    for (int32_t j = 0; j < whole_cols; j += 8) {
        for (int32_t i = 0; i < whole_rows; i += 8) {
            transpose_block(y + (ptrdiff_t)j * y_row + i, y_row, x + (ptrdiff_t)i * x_row + j, x_row);
        }
    }
    transpose_rest(y, y_row, x, x_row, whole_rows, rows, 0, whole_cols);
    transpose_rest(y, y_row, x, x_row, 0, rows, whole_cols, cols);
}

#endif
