/* dx[r,i] = sum over o of g[r,o] w[o,i] with w = scale[o] * the integer weight: the scale goes into g. One chain of
 * multiply-adds over o. Scratch: `piece` rows of o floats. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"

void linear_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, int32_t piece, const linear_shape *s,
                  void *scratch)
{
    matrix_shape m = {0, s->i, s->o, s->i, 0, s->o, 1, s->i};
    for (int32_t r = 0; r < s->rows; r += m.rows) {
        m.rows = s->rows - r < piece ? s->rows - r : piece;
        scale_rows_f32(scratch, g + r * s->o, scale, m.rows, s->o);
        matrix_s8(dx + r * s->i, NULL, scratch, w, 0, &m);
    }
}
