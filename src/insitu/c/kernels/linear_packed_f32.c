/* linear_f32 for constant weights, packed when the program was made: w[o/16][i][16], zero where there is no o.
 * b may be null. Not in place.
 */
#include "isa.h"
#include "kernels.h"

void linear_packed_f32(float *y, const float *x, const float *w, const float *b, const linear_shape *s)
{
    for (int32_t r = 0; r < s->rows; r += 8) {
        const int32_t rows = s->rows - r < 8 ? s->rows - r : 8;
        tile_f32(y + r * s->o, x + r * s->i, s->i, rows, s->i, w, b, s->o);
    }
}
