/* y[outer(o) + step(r) + i] = factor g[o,i] for every r: see reduce_shape. Not in place. */
#include "kernels.h"

void expand_f32(float *y, const float *g, const reduce_shape *s, float factor)
{
    for (int32_t o = 0; o < s->outer; o++, g += s->inner) {
        float *to = y + (s->outer_at ? s->outer_at[o] : o * s->reduce * s->inner);
        for (int32_t r = 0; r < s->reduce; r++) {
            float *row = to + (s->reduce_at ? s->reduce_at[r] : r * s->inner);
            for (int32_t i = 0; i < s->inner; i++) {
                row[i] = factor * g[i];
            }
        }
    }
}
