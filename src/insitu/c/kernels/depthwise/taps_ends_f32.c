/* y[p y_step, o] = min(max(start[o] + sum over taps of x[tap,o] w[tap,o] + more, lo), hi), the sum a chain of fused
 * multiply-adds in their order. A null start is zero; x and w are floats. See taps.h, and products.h for the end.
 */
#include "isa/taps.h"

void taps_ends_f32(float *y, const float *start, const tap *taps, int32_t count, const matrix_end *end,
                   const tap_row *t)
{
    taps_any(TAPS_END, y, start, taps, count, end, t);
}
