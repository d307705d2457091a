/* What a row of pixels adds to the gradient of each tap's weights: see taps.h. */
#include "isa/taps.h"

void taps_dw_f32(const tap *taps, int32_t count, const float *g, const tap_row *t)
{
    taps_dw_any(1, taps, count, g, 0, t);
}
