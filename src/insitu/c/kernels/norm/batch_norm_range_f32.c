/* y = min(max((x - mean) factor + bias, lo), hi) for x[rows,c]; `clamps` says whether lo and hi count. In place allowed. */
#include "kernels.h"
#include "kernels/norm/norm_rows.h"

void batch_norm_range_f32(float *y, const float *x, const float *mean, const float *factor, const float *bias,
                          int32_t rows, int32_t c, int32_t clamps, float lo, float hi)
{
    switch (clamps ? norm_clamps(lo, hi) : 0) {
    case 2: NORM_EACH(rows, c, norm_apply(V, 2, y + at, x + at, mean + o, factor + o, bias + o, lo, hi, t)) break;
    case 1: NORM_EACH(rows, c, norm_apply(V, 1, y + at, x + at, mean + o, factor + o, bias + o, lo, hi, t)) break;
    default: NORM_EACH(rows, c, norm_apply(V, 0, y + at, x + at, mean + o, factor + o, bias + o, lo, hi, t)) break;
    }
}
