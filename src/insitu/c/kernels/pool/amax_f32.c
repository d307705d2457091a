/* y[o,i] = max over r of x[outer(o) + step(r) + i]: see reduce_shape. Not in place. */
#include "isa/primitives.h"
#include "kernels.h"

void amax_f32(float *y, const float *x, const reduce_shape *s)
{
    for (int32_t o = 0; o < s->outer; o++, y += s->inner) {
        const float *from = x + (s->outer_at ? s->outer_at[o] : o * s->reduce * s->inner);
        for (int32_t i = 0; i < s->inner; i++) {
            y[i] = from[i];
        }
        for (int32_t r = 1; r < s->reduce; r++) {
            max_f32(y, from + (s->reduce_at ? s->reduce_at[r] : r * s->inner), s->inner);
        }
    }
}
