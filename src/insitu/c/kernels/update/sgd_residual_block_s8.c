/* The 16-bit number w + r/256 moves by -rate (factor scale dw 2^e channel[..] + decay (w + r/256)), each to the nearest
 * 1/256, in place. Saturates at +-127, counted. Floats: a few per group of channels and one product per channel.
 * Element i of dw belongs to channel i / inner % channels, whose group has an exponent.
 */
#include "kernels/update/block_update.h"
#include "numbers/count.h"

void sgd_residual_block_s8(int8_t *w, int8_t *r, int32_t *count, const int32_t *dw, const int8_t *e, const float *rate,
                           float scale, int32_t channels, int32_t inner, const integer_update *u)
{
    const block_gradient g = {dw, e, scale, u->n, channels, inner};
    const float factor = block_factor(squares_s32b(0.0f, &g), *rate, u->clip, count);
    count_more(count + 2, step_residual_s32b(w, r, &g, *rate, factor, 0, u));
}
