/* Walk the rows of two broadcasting operands: the position of each, row by row. See pair_shape. */
#ifndef INSITU_PAIR_H
#define INSITU_PAIR_H

#include <stdint.h>

#include "kernels/shapes.h"

typedef struct {
    int32_t a, b, index[5];
} pair_at;

/* One row further, like an odometer. */
static inline void pair_next(pair_at *at, const pair_shape *s)
{
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        at->a += s->a[d];
        at->b += s->b[d];
        if (++at->index[d] < s->size[d]) {
            return;
        }
        at->index[d] = 0;
        at->a -= s->a[d] * s->size[d];
        at->b -= s->b[d] * s->size[d];
    }
}

#endif
