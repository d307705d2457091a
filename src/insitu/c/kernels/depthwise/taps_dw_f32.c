/* w[tap,o] += sum over p of g[p y_step, o] x[tap,o], a chain in the order of p: what a row of pixels adds to the
 * gradient of each tap's weights. Here x is float. See taps.h.
 */
#include "isa/taps.h"

void taps_dw_f32(const tap *taps, int32_t count, const float *g, const tap_row *t)
{
    taps_dw_any(1, taps, count, g, 0, t);
}
