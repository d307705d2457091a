/* Requantisation in three steps, for the rounding single and multipliers below a quarter; and storing the result.
 *
 *   y = clamp(((high word of acc m) + add) >> shift)     add holds the half and the zero point
 */
#ifndef INSITU_ISA_QUICK_H
#define INSITU_ISA_QUICK_H

#include <stdint.h>

#include "isa/machine.h"
#include "numbers/requant.h"

typedef struct {
    int32_t m, add, shift;
} quick_requant;

/* is there a quick way for this multiplier? if so, this writes it; `twice`: 2 y_zero + 1 */
static inline int quick_from(quick_requant *quick, int32_t m, int32_t shift, int32_t twice)
{
    int32_t half = -2 - shift;
    if ((uint32_t)half > 21u) {
        if (m) {
            return 0;
        }
        half = 0;
    }
    quick->m = m;
    quick->add = twice * (1 << half);
    quick->shift = half + 1;
    return 1;
}

/* and for every channel, with results stored unchanged? */
static inline int requant_is_quick(const requant *q)
{
    return q->rounding == REQUANT_SINGLE && q->lo == -128 && q->hi == 127;
}

/* is there one for this channel? */
static inline int quick_of(quick_requant *quick, int32_t channel, const requant *q)
{
    const int32_t at = channel * q->step;
    return q->rounding == REQUANT_SINGLE && quick_from(quick, q->m[at], q->shift[at], 2 * q->y_zero + 1);
}

/* the high word of a product */
#if INSITU_HALF_PRODUCTS
static inline int32_t high_word(int32_t a, int32_t b) /* in halves: a product of two words would be a library call */
{
    const int32_t ah = a >> 16, bh = b >> 16;
    const uint32_t al = (uint32_t)a & 0xffffu, bl = (uint32_t)b & 0xffffu;
    const int32_t middle = ah * (int32_t)bl + (int32_t)((al * bl) >> 16);
    const int32_t other = (int32_t)al * bh + (int32_t)((uint32_t)middle & 0xffffu);
    return ah * bh + (middle >> 16) + (other >> 16);
}
#else
static inline int32_t high_word(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b) >> 32);
}
#endif

/* before the clamp */
static inline int32_t quick_value(int32_t acc, const quick_requant *q)
{
    return (high_word(acc, q->m) + q->add) >> q->shift;
}

static inline int32_t value_within(int32_t v, int32_t lo, int32_t hi)
{
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

/* n sums, all 8 bits used, no mask */
static inline void scalar_store_plain(channel_place to, const int32_t *acc, int32_t n, const quick_requant *way)
{
    for (const int32_t *end = acc + n; acc < end; acc++, to.y += to.y_row) {
        *to.y = (int8_t)value_within(quick_value(*acc, way), -128, 127);
    }
}

/* the same with a mask, whose bit was zero */
static inline void scalar_store_masked(channel_place to, const int32_t *acc, int32_t n, const quick_requant *way)
{
    const uint32_t bit = 1u << (to.channel & 7);
    uint8_t *mask = to.mask + (to.channel >> 3);
    for (const int32_t *end = acc + n; acc < end; acc++, to.y += to.y_row, mask += to.mask_row) {
        const int32_t v = quick_value(*acc, way), within = value_within(v, -128, 127);
        *to.y = (int8_t)within;
        *mask = (uint8_t)(v == within ? *mask | bit : *mask);
    }
}

/* the same for any multiplier, rounding and bounds; if there is a mask, its bit was zero */
static inline void scalar_store_any(const channel_place *to, const int32_t *acc, int32_t n, const requant *q)
{
    const uint32_t bit = 1u << (to->channel & 7);
    uint8_t *mask = to->mask ? to->mask + (to->channel >> 3) : NULL;
    for (int32_t j = 0; j < n; j++) {
        const int64_t v = requant_value(acc[j], to->channel, q);
        to->y[j * to->y_row] = (int8_t)(v < q->lo ? q->lo : v > q->hi ? q->hi : v);
        if (mask && v >= q->lo && v <= q->hi) {
            mask[j * to->mask_row] = (uint8_t)(mask[j * to->mask_row] | bit);
        }
    }
}

#if INSITU_HELIUM
#include "isa/helium/quick.h"
#elif INSITU_DSP
#include "isa/dsp/quick.h"
#else
#define store_plain scalar_store_plain
#define store_masked scalar_store_masked
#endif
#ifndef store_any
#define store_any scalar_store_any
#endif

#endif
