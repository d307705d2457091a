/* add_rows.h on vectors of floats: sums stay in registers. */
#ifndef INSITU_ISA_LANES_ADD_ROWS_H
#define INSITU_ISA_LANES_ADD_ROWS_H

#include "isa/inline.h"
#include "isa/lanes.h"

/* N vectors, of which the last has the lanes m */
ALWAYS_INLINE void add_rows_vectors(const int N, float *y, const float *x, int32_t row, int32_t rows, vm m)
{
    vf sum[4];
    UNROLL
    for (int j = 0; j < N; j++) {
        sum[j] = j + 1 < N ? vf_full(y + j * LANES) : vf_load(m, y + j * LANES);
    }
    for (int32_t r = 0; r < rows; r++, x += row) {
        UNROLL
        for (int j = 0; j < N; j++) {
            sum[j] = vf_add(sum[j], j + 1 < N ? vf_full(x + j * LANES) : vf_load(m, x + j * LANES));
        }
    }
    UNROLL
    for (int j = 0; j < N; j++) {
        if (j + 1 < N) {
            vf_put(y + j * LANES, sum[j]);
        } else {
            vf_store(y + j * LANES, m, sum[j]);
        }
    }
}

static inline void add_rows_f32(float *y, const float *x, int32_t row, int32_t rows, int32_t n)
{
    int32_t i = 0;
    for (; i + 3 * LANES < n; i += 4 * LANES) {
        add_rows_vectors(4, y + i, x + i, row, rows, lanes(n - i - 3 * LANES));
    }
    for (; i < n; i += LANES) {
        add_rows_vectors(1, y + i, x + i, row, rows, lanes(n - i));
    }
}

#endif
