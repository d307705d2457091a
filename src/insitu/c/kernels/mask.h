/* Writes a mask, one bit per element: rows of `channels` bits, each row starting at a byte. See ops/mask.py. */
#ifndef INSITU_MASK_H
#define INSITU_MASK_H

#include <stdint.h>

typedef struct {
    uint8_t *at;
    int32_t channels, c;
} mask_writer;

static inline mask_writer mask_start(uint8_t *mask, int32_t channels)
{
    const mask_writer w = {mask, channels, 0};
    return w;
}

/* the bit of the next element: is x within lo..hi? */
static inline void mask_next(mask_writer *w, int64_t x, int32_t lo, int32_t hi)
{
    const uint8_t bit = (uint8_t)((uint32_t)(x >= lo && x <= hi) << (w->c & 7));
    *w->at = (w->c & 7) == 0 ? bit : (uint8_t)(*w->at | bit);
    w->c++;
    if (w->c == w->channels || (w->c & 7) == 0) {
        w->at++;
    }
    w->c = w->c == w->channels ? 0 : w->c;
}

#endif
