/* db[o] = sum over r of g[r,o], added in the order of r. Not in place. */
#include "isa/fma.h"
#include "kernels.h"

void bias_grad_f32(float *db, const float *g, int32_t rows, int32_t n)
{
    clear_f32(db, n);
    for (int32_t r = 0; r < rows; r++, g += n) {
        for (int32_t o = 0; o < n; o++) {
            db[o] += g[o];
        }
    }
}
