/* y[p y_step, o] = start[o] + sum over taps of x[tap,o] w[tap,o], a chain of fused multiply-adds in their order: a row
 * of depthwise outputs. A null start is zero; x and w are floats. See taps.h.
 */
#include "isa/taps.h"

void taps_f32(float *y, const float *start, const tap *taps, int32_t count, const tap_row *t)
{
    taps_any(1, y, start, taps, count, NULL, t);
}
