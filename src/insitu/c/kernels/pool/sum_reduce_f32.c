/* y[o,i] = sum over r of x[outer(o) + step(r) + i]: see reduce_shape. Not in place. */
#include "isa/add_rows.h"
#include "isa/primitives.h"
#include "kernels.h"

void sum_reduce_f32(float *y, const float *x, const reduce_shape *s)
{
    for (int32_t o = 0; o < s->outer; o++, y += s->inner) {
        const float *from = x + (s->outer_at ? s->outer_at[o] : o * s->reduce * s->inner);
        if (s->inner == 1 && !s->reduce_at) {
            y[0] = sum_f32(from, s->reduce);
            continue;
        }
        for (int32_t i = 0; i < s->inner; i++) {
            y[i] = 0.0f;
        }
        if (!s->reduce_at) {
            add_rows_f32(y, from, s->inner, s->reduce, s->inner);
        }
        for (int32_t r = 0; s->reduce_at && r < s->reduce; r++) {
            add_rows_f32(y, from + s->reduce_at[r], 0, 1, s->inner);
        }
    }
}
