/* What a row of pixels adds to the gradient of each tap's weights: see taps.h. */
#include "isa/taps.h"

void taps_dw_s8(const tap *taps, int32_t count, const float *g, int32_t zero, const tap_row *t)
{
    taps_dw_any(0, taps, count, g, zero, t);
}
