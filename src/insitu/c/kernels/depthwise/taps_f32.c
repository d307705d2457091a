/* A row of depthwise outputs, tap by tap: see taps.h. */
#include "isa/taps.h"

void taps_f32(float *y, const float *start, const tap *taps, int32_t count, const tap_row *t)
{
    taps_any(1, y, start, taps, count, t);
}
