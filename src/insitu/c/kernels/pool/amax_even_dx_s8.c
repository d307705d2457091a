/* dx = g[o,i] / n at each of the n maxima over r of x[outer(o) + step(r) + i], else 0: see reduce_shape. Not in place.
 */
#include "kernels.h"

void amax_even_dx_s8(float *dx, const float *g, const int8_t *x, const reduce_shape *s)
{
    for (int32_t o = 0; o < s->outer; o++) {
        const int32_t start = s->outer_at ? s->outer_at[o] : o * s->reduce * s->inner;
        for (int32_t i = 0; i < s->inner; i++) {
            int8_t highest = x[start + i];
            int32_t count = 0;
            for (int32_t r = 0; r < s->reduce; r++) {
                const int8_t here = x[start + (s->reduce_at ? s->reduce_at[r] : r * s->inner) + i];
                count = here > highest ? 1 : count + (here == highest);
                highest = here > highest ? here : highest;
            }
            const float share = *g++ / (float)count;
            for (int32_t r = 0; r < s->reduce; r++) {
                const int32_t at = start + (s->reduce_at ? s->reduce_at[r] : r * s->inner) + i;
                dx[at] = x[at] == highest ? share : 0.0f;
            }
        }
    }
}
