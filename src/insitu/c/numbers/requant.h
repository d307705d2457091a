/* From int32 sums to int8: m and shift represent the real multiplier m * 2^(shift - 31), m in [2^30, 2^31).
 *
 * single   (acc * m + 2^(s-1)) >> s, s = 31 - shift, in 64 bits: rounds once, half up
 * litert   round_half_away(round_half_up(acc * 2^left * m / 2^31) / 2^right): rounds twice, as LiteRT does
 */
#ifndef INSITU_REQUANT_H
#define INSITU_REQUANT_H

#include <stddef.h>
#include <stdint.h>

enum { REQUANT_SINGLE = 0, REQUANT_LITERT = 1 };

/* zero points, the clamp in output units, and one multiplier for all channels (step 0) or one per channel (step 1) */
typedef struct {
    int32_t x_zero, w_zero, y_zero, lo, hi, rounding, step;
    const int32_t *m;
    const int8_t *shift;
} requant;

/* The results of one channel, pixel by pixel: y[j y_row], and bit channel % 8 of byte
 * mask[j mask_row + channel / 8] if there is a mask. */
typedef struct {
    int8_t *y;
    uint8_t *mask;
    int32_t y_row, mask_row, channel;
} channel_place;

static inline int64_t requant_single(int32_t acc, int32_t m, int32_t shift)
{
    const int32_t s = 31 - shift;
    return ((int64_t)acc * m + ((int64_t)1 << (s - 1))) >> s;
}

static inline int64_t requant_litert(int32_t acc, int32_t m, int32_t shift)
{
    const int32_t left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
    const int32_t x = (int32_t)((uint32_t)acc << left); /* wraps, as LiteRT's does */
    const int32_t high = (int32_t)(((int64_t)x * m + (1 << 30)) >> 31);
    const int32_t mask = (int32_t)(((int64_t)1 << right) - 1);
    return (int64_t)(high >> right) + ((high & mask) > (mask >> 1) + (high < 0));
}

/* before the clamp */
static inline int64_t requant_value(int32_t acc, int32_t channel, const requant *q)
{
    const int32_t m = q->m[channel * q->step], shift = q->shift[channel * q->step];
    return (q->rounding == REQUANT_LITERT ? requant_litert(acc, m, shift) : requant_single(acc, m, shift)) + q->y_zero;
}

static inline int8_t requant_at(int32_t acc, int32_t channel, const requant *q)
{
    const int64_t y = requant_value(acc, channel, q);
    return (int8_t)(y < q->lo ? q->lo : y > q->hi ? q->hi : y);
}

/* requant_at, and in a row of bits whether it was not clamped; `mask` is the row, or null. Channels come in order. */
static inline int8_t requant_masked(uint8_t *mask, int32_t acc, int32_t channel, const requant *q)
{
    if (mask) {
        const int64_t y = requant_value(acc, channel, q);
        const uint8_t bit = (uint8_t)((uint32_t)(y >= q->lo && y <= q->hi) << (channel & 7));
        mask[channel >> 3] = (channel & 7) == 0 ? bit : (uint8_t)(mask[channel >> 3] | bit);
    }
    return requant_at(acc, channel, q);
}

static inline void clear_mask(uint8_t *mask, int32_t bytes)
{
    for (int32_t i = 0; mask && i < bytes; i++) {
        mask[i] = 0;
    }
}

/* row p of a mask with this many bits per row; null stays null */
static inline uint8_t *mask_row(uint8_t *mask, int32_t p, int32_t bits)
{
    return mask ? mask + (ptrdiff_t)p * ((bits + 7) / 8) : NULL;
}

#endif
