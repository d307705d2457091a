/* y[o,i] = sum over r of g[outer(o) + step(r) + i], in a fixed order: see reduce_shape. Not in place. */
#include "isa/fma.h"
#include "kernels.h"
#include "numbers/mathf.h"

void unbroadcast_f32(float *y, const float *g, const reduce_shape *s)
{
    for (int32_t o = 0; o < s->outer; o++, y += s->inner) {
        const float *from = g + (s->outer_at ? s->outer_at[o] : o * s->reduce * s->inner);
        if (s->inner == 1 && !s->reduce_at) {
            y[0] = insitu_sumf(from, s->reduce);
            continue;
        }
        clear_f32(y, s->inner);
        for (int32_t r = 0; r < s->reduce; r++) {
            const float *row = from + (s->reduce_at ? s->reduce_at[r] : r * s->inner);
            for (int32_t i = 0; i < s->inner; i++) {
                y[i] += row[i];
            }
        }
    }
}
