/* transpose.h for AVX-512: sixteen rows are gathered at a time. */
#ifndef INSITU_ISA_AVX512_TRANSPOSE_H
#define INSITU_ISA_AVX512_TRANSPOSE_H

#include "isa/avx512/intrinsics.h"

static inline void transpose_f32(float *y, int32_t y_row, const float *x, int32_t x_row, int32_t rows, int32_t cols)
{
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_mullo_epi32(steps, _mm512_set1_epi32(x_row));
    for (int32_t i = 0; i < rows; i += 16, x += (ptrdiff_t)16 * x_row) {
        const __mmask16 k = (__mmask16)(rows - i >= 16 ? 0xffffu : (1u << (rows - i)) - 1u);
        for (int32_t j = 0; j < cols; j++) {
            const __m512 v = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), k, at, x + j, 4);
            _mm512_mask_storeu_ps(y + (ptrdiff_t)j * y_row + i, k, v);
        }
    }
}

#endif
