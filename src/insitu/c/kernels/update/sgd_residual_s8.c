/* The 16-bit number w + r/256 moves by -rate (factor dw channel[..] + decay (w + r/256)), to the nearest 1/256, in
 * place. Saturates at +-127, counted.
 */
#include "kernels/update/residual.h"
#include "numbers/count.h"

void sgd_residual_s8(int8_t *w, int8_t *r, int32_t *count, const float *dw, const float *rate, const integer_update *u)
{
    const float factor = clip_factor(dw, *rate, u->clip, count, u->n);
    count_more(count + 2, residual_step(w, r, dw, *rate, factor, 0, u->n, u));
}
