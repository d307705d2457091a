/* y = (x - mean) factor + bias, one of each per channel of x[outer,c,inner]. In place allowed. */
#ifndef INSITU_NORMALISE_H
#define INSITU_NORMALISE_H

#include <stdint.h>

static inline void normalise(float *y, const float *x, const float *mean, const float *factor, const float *bias,
                             int32_t outer, int32_t c, int32_t inner)
{
    for (int32_t r = 0; r < outer; r++, x += c * inner, y += c * inner) {
        for (int32_t k = 0; inner == 1 && k < c; k++) {
            y[k] = (x[k] - mean[k]) * factor[k] + bias[k];
        }
        for (int32_t k = 0; inner > 1 && k < c; k++) {
            for (int32_t i = k * inner; i < (k + 1) * inner; i++) {
                y[i] = (x[i] - mean[k]) * factor[k] + bias[k];
            }
        }
    }
}

#endif
