/* What the updates of integer parameters by integer gradients share: m 2^e scale. The meaning is in
 * ops/block_update.py.
 */
#ifndef INSITU_BLOCK_UPDATE_H
#define INSITU_BLOCK_UPDATE_H

#include "block_rows.h"
#include "mathf.h"
#include "update.h"

static inline int32_t block_bit_length64(uint64_t n)
{
    return n >> 32 ? 32 + bit_length((uint32_t)(n >> 32)) : bit_length((uint32_t)n);
}

/* A gradient: sums m with an exponent for each group of channels. Element i belongs to channel i / inner % channels. */
typedef struct {
    const int32_t *m;
    const int8_t *e;
    float scale;
    int32_t n, channels, inner;
} block_gradient;

/* From element i on, `length` elements have this exponent. */
typedef struct {
    int32_t length, e;
} block_run;

static inline block_run block_run_at(const block_gradient *g, int32_t i)
{
    const int32_t at = i / g->inner, channel = at % g->channels, group = channel / BLOCK_GROUP;
    const int32_t end = (group + 1) * BLOCK_GROUP < g->channels ? (group + 1) * BLOCK_GROUP : g->channels;
    const block_run run = {(at - channel + end) * g->inner - i, g->e[group]};
    return run;
}

/* the norm of one group of channels: squares of the upper 15 bits, added as integers */
static inline float block_group_norm(const block_gradient *g, int32_t group)
{
    const int32_t row = g->channels * g->inner, begin = group * BLOCK_GROUP * g->inner;
    const int32_t length = block_width(group * BLOCK_GROUP, g->channels) * g->inner;
    uint32_t sizes = 0;
    for (int32_t at = begin; at < g->n; at += row) {
        for (int32_t i = at; i < at + length; i++) {
            sizes |= block_size_of(g->m[i]);
        }
    }
    const int32_t bits = bit_length(sizes), d = bits > 15 ? bits - 15 : 0;
    uint64_t total = 0;
    for (int32_t at = begin; at < g->n; at += row) {
        for (int32_t i = at; i < at + length; i++) {
            const uint32_t size = block_size_of(g->m[i]) >> d;
            total += size * size;
        }
    }
    const int32_t over = block_bit_length64(total) - 24, z = over > 0 ? over + (over & 1) : 0;
    return insitu_sqrtf((float)(int32_t)(total >> z)) * block_power(z / 2 + d + g->e[group]) * g->scale;
}

/* the square of the norm, group after group, onto what those before have; endless where a group is */
static inline float block_squares(const block_gradient *g, float sum)
{
    for (int32_t group = 0; group < block_groups(g->channels); group++) {
        const float norm = block_group_norm(g, group);
        sum += g->e[group] == BLOCK_MOST ? block_power(BLOCK_MOST + 1) : norm * norm;
    }
    return sum;
}

/* clip_factor of a gradient whose norm has this square */
static inline float block_factor(float squares, float rate, float clip, int32_t *count)
{
    if (rate == 0.0f || !(rate - rate == 0.0f)) {
        return 0.0f;
    }
    if (!(squares - squares == 0.0f)) {
        count[0]++;
        return 0.0f;
    }
    const float norm = insitu_sqrtf(squares);
    if (clip == 0.0f || !(norm > clip)) {
        return 1.0f;
    }
    count[1]++;
    return clip / norm;
}

/* a float times 2^e as a whole number of 24 bits and how far a product with it is shifted to the right; bits of an
 * endless one are not shifted at all but end at the limit */
typedef struct {
    int32_t whole, shift, endless;
} block_multiplier;

static inline block_multiplier block_multiplier_of(float by, int32_t e)
{
    block_float v;
    v.f = by;
    const int32_t exponent = (int32_t)(v.u >> 23 & 255u);
    const block_multiplier found = {exponent ? block_whole(v.u) : 0, 150 - exponent - e, exponent == 255};
    return found;
}

/* Whether what is left of a product is in its upper word: then block_upper does. Almost all gradients are such. */
static inline int block_is_upper(const block_multiplier *by)
{
    return by->shift >= 26 && !by->endless;
}

/* round(x * by), halves up; below 2^30 */
ALWAYS_INLINE int32_t block_upper(int32_t x, int32_t whole, int32_t shift)
{
    const int32_t upper = (int32_t)(((int64_t)x * (whole * 128)) >> 32);
    return ((upper >> (shift < 57 ? shift - 26 : 31)) + 1) >> 1;
}

/* round(x * by), halves up, at most limit either way */
static inline int32_t block_times(int32_t x, const block_multiplier *by, int32_t limit)
{
    const int64_t product = (int64_t)x * by->whole;
    int64_t y = product > limit ? limit : product < -limit ? -limit : product;
    if (by->endless) {
        return product > 0 ? limit : product < 0 ? -limit : 0;
    }
    if (by->shift > 0) {
        y = ((product >> ((by->shift < 62 ? by->shift : 62) - 1)) + 1) >> 1;
    } else {
        y *= (int64_t)1 << (by->shift > -31 ? -by->shift : 31);
    }
    return (int32_t)(y > limit ? limit : y < -limit ? -limit : y);
}

#endif
