/* w[tap,o] += sum over p of g[p y_step, o] x[tap,o], a chain in the order of p: what a row of pixels adds to the
 * gradient of each tap's weights. Here x is s8 and stands for x - zero. See taps.h.
 */
#include "isa/taps.h"

void taps_dw_s8(const tap *taps, int32_t count, const float *g, int32_t zero, const tap_row *t)
{
    taps_dw_any(0, taps, count, g, zero, t);
}
