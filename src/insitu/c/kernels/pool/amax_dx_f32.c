/* dx = g[o,i] where x is the first maximum over r of x[outer(o) + step(r) + i], else 0: see reduce_shape. Not in place.
 */
#include "kernels.h"

void amax_dx_f32(float *dx, const float *g, const float *x, const reduce_shape *s)
{
    for (int32_t o = 0; o < s->outer; o++) {
        const int32_t start = s->outer_at ? s->outer_at[o] : o * s->reduce * s->inner;
        for (int32_t i = 0; i < s->inner; i++) {
            int32_t best = start + i;
            for (int32_t r = 0; r < s->reduce; r++) {
                const int32_t at = start + (s->reduce_at ? s->reduce_at[r] : r * s->inner) + i;
                best = x[at] > x[best] ? at : best;
                dx[at] = 0.0f;
            }
            dx[best] = *g++;
        }
    }
}
