/* Mean and reciprocal deviation of a row, each summed in eight lanes: the order is fixed, and it vectorises. */
#ifndef INSITU_ROW_NORM_H
#define INSITU_ROW_NORM_H

#include "numbers/mathf.h"

typedef struct {
    float mean, factor;
} row_norm;

static inline row_norm row_norm_of(const float *x, int32_t n, float epsilon)
{
    const float mean = insitu_sumf(x, n) / (float)n;
    float lane[8] = {0.0f};
    for (int32_t i = 0; i < n; i++) {
        const float d = x[i] - mean;
        lane[i & 7] += d * d;
    }
    const row_norm found = {mean, 1.0f / insitu_sqrtf(insitu_sumf(lane, 8) / (float)n + epsilon)};
    return found;
}

#endif
