/* Sums over all but the channels of [outer,c,inner], in blocks: a long sum of floats loses digits, a sum of sums loses
 * fewer. The order is fixed.
 */
#ifndef INSITU_CHANNEL_SUM_H
#define INSITU_CHANNEL_SUM_H

#include "isa/fma.h"

#define CHANNEL_BLOCK 64

/* after row r: at the end of a block its sums join the total and start again */
static inline void channel_flush(float *total, float *part, int32_t c, int32_t r, int32_t rows)
{
    if ((r + 1) % CHANNEL_BLOCK != 0 && r + 1 != rows) {
        return;
    }
    for (int32_t k = 0; k < c; k++) {
        total[k] += part[k];
        part[k] = 0.0f;
    }
}

#endif
