/* Requantisation in three steps where the rounding is single and the multiplier below a quarter; and where it ends up.
 *
 *   y = clamp(((high word of acc m) + add) >> shift)     add holds the half and the zero point
 */
#ifndef INSITU_ISA_QUICK_H
#define INSITU_ISA_QUICK_H

#include <stdint.h>

#include "requant.h"

typedef struct {
    int32_t m, add, shift;
} quick_requant;

/* is there a quick way for this channel? then this is it */
static inline int quick_of(quick_requant *quick, int32_t channel, const requant *q)
{
    const int32_t m = q->m[channel * q->step], down = -1 - q->shift[channel * q->step];
    quick->m = m;
    quick->shift = m ? down : 1;
    if (q->rounding != REQUANT_SINGLE || (m && (down < 1 || down > 22))) {
        return 0;
    }
    quick->add = (1 << (quick->shift - 1)) + q->y_zero * (1 << quick->shift);
    return 1;
}

/* before the clamp */
static inline int32_t quick_value(int32_t acc, const quick_requant *q)
{
    return ((int32_t)(((int64_t)acc * q->m) >> 32) + q->add) >> q->shift;
}

/* The results of one channel, pixel after pixel: y[j y_row], and its bit in mask[j mask_row] where there is a mask.
 * `first` says that the bit is the byte's first. */
typedef struct {
    int8_t *y;
    uint8_t *mask;
    int32_t y_row, mask_row, channel, quick;
    quick_requant way;
    const requant *q;
} channel_store;

static inline int32_t value_within(int32_t v, int32_t lo, int32_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static inline channel_store channel_store_of(int8_t *y, uint8_t *mask, int32_t y_row, int32_t channel, const requant *q)
{
    channel_store to = {y + channel, mask, y_row, (y_row + 7) / 8, channel, 0, {0, 0, 0}, q};
    to.quick = quick_of(&to.way, channel, q);
    return to;
}

static inline void store_channel(const channel_store *to, int32_t j, int32_t acc)
{
    uint8_t *bits = to->mask ? to->mask + j * to->mask_row : NULL;
    to->y[j * to->y_row] = requant_masked(bits, acc, to->channel, to->q);
}

#endif
