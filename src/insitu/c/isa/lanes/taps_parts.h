/* What both walks over taps do with a vector of channels: taps.h, taps_grid.h. */
#ifndef INSITU_ISA_LANES_TAPS_PARTS_H
#define INSITU_ISA_LANES_TAPS_PARTS_H

#include "isa/inline.h"
#include "isa/lanes.h"

/* the pixels first..last-1 whose taps are all inside */
ALWAYS_INLINE tap_range taps_whole(const tap *taps, int32_t count, const tap_row *t)
{
    int32_t low = 0, high = 0;
    for (int32_t k = 0; k < count; k++) {
        low = taps[k].at < low ? taps[k].at : low;
        high = taps[k].at > high ? taps[k].at : high;
    }
    const int one = t->step == 1; /* usual, and divisions are slow */
    const int32_t first = one ? -low : (-low + t->step - 1) / t->step, room = t->width - 1 - high;
    const int32_t last = room >= 0 ? (one ? room : room / t->step) + 1 : 0;
    const int32_t end = last < t->pixels ? last : t->pixels;
    const tap_range found = {first < end ? first : end, end};
    return found;
}

/* `full`: all lanes of m are in use, so that nothing has to be masked */
ALWAYS_INLINE vf taps_load(const int full, vm m, const float *p)
{
    return full ? vf_full(p) : vf_load(m, p);
}

ALWAYS_INLINE void taps_store(const int full, float *p, vm m, vf v)
{
    if (full) {
        vf_put(p, v);
    } else {
        vf_store(p, m, v);
    }
}

ALWAYS_INLINE vf taps_ended(const int full, vm m, vf sum, const matrix_end *end, ptrdiff_t at)
{
    if (end->more) {
        sum = vf_add(sum, taps_load(full, m, end->more + at));
    }
    return end->clamps ? vf_min(vf_max(sum, vf_set(end->lo)), vf_set(end->hi)) : sum;
}

ALWAYS_INLINE vf taps_weight(const int wide, const int full, const tap *k, int32_t o, vm m)
{
    return wide ? taps_load(full, m, (const float *)k->w + o) : vf_load_s8(m, (const int8_t *)k->w + o, 0);
}

#endif
