/* sgd_residual_s8 for elements first..first+n-1; dw starts with the first of them; the factor is the ninth of `norm`.
 * */
#include "kernels/update/norm.h"
#include "kernels/update/residual.h"
#include "numbers/count.h"

void sgd_residual_tile_s8(int8_t *w, int8_t *r, int32_t *count, const float *dw, const float *rate, const float *norm,
                          int32_t first, int32_t n, const integer_update *u)
{
    count_more(count + 2, residual_step(w, r, dw, *rate, norm[NORM_LANES], first, first + n, u));
}
