/* sgd_residual_block_s8 for elements first..first+n-1; dw starts with the first of them: whole groups of channels,
 * `inner` elements per channel. The factor is the second of `norm`.
 */
#include "kernels.h"
#include "numbers/count.h"

void sgd_residual_block_tile_s8(int8_t *w, int8_t *r, int32_t *count, const int32_t *dw, const int8_t *e,
                                const float *rate, const float *norm, float scale, int32_t inner, int32_t first,
                                int32_t n, const integer_update *u)
{
    const block_gradient g = {dw, e, scale, n, n / inner, inner};
    count_more(count + 2, step_residual_s32b(w, r, &g, *rate, norm[1], first, u));
}
