/* dx[n, row[i], column[j], c] = the sum of g[n,i,j,c]: copies of a pixel return their gradient. `pixels` is h*w of
 * dx. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"

void resize_dx_f32(float *dx, const float *g, const int32_t *row, const int32_t *column, int32_t n, int32_t pixels,
                   int32_t w, int32_t oh, int32_t ow, int32_t c)
{
    clear_f32(dx, n * pixels * c);
    for (int32_t k = 0; k < n; k++, dx += pixels * c) {
        for (int32_t i = 0; i < oh; i++) {
            for (int32_t j = 0; j < ow; j++, g += c) {
                fma_row_f32(dx + (row[i] * w + column[j]) * c, 1.0f, g, c);
            }
        }
    }
}
