/* dscale[i] = the sum over rows of g x^, x^ the normalised row of x[rows,n]. Not in place. */
#include "isa/fma.h"
#include "kernels.h"
#include "kernels/norm/row_norm.h"

void layer_norm_dscale_f32(float *dscale, const float *g, const float *x, int32_t rows, int32_t n, float epsilon)
{
    clear_f32(dscale, n);
    for (int32_t r = 0; r < rows; r++, x += n, g += n) {
        const row_norm norm = row_norm_of(x, n, epsilon);
        for (int32_t i = 0; i < n; i++) {
            dscale[i] = fma_f32(g[i], (x[i] - norm.mean) * norm.factor, dscale[i]);
        }
    }
}
