/* A row of depthwise outputs, tap by tap: see taps.h. */
#include "isa/taps.h"

void taps_s8(float *y, const float *start, const tap *taps, int32_t count, const tap_row *t)
{
    taps_any(0, y, start, taps, count, t);
}
