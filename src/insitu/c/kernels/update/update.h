/* What the updates of integer parameters share: their options, and the walk over runs of one channel. */
#ifndef INSITU_UPDATE_H
#define INSITU_UPDATE_H

#include "kernels.h"
#include "kernels/update/options.h"

/* From element i on, `length` elements form one run: they share a channel, or have consecutive channels. */
typedef struct {
    int32_t length;
    const float *channel;
} update_run;

/* `side` has room for SCALES_PIECE numbers, if there is no table of them */
static inline update_run run_at(const integer_update *u, int32_t i, int32_t end, float *side)
{
    const int32_t each = u->inner == 1, at = each ? i % u->channels : i % u->inner;
    const int32_t rest = (each ? u->channels : u->inner) - at, channel = each ? at : i / u->inner % u->channels;
    update_run run = {rest < end - i ? rest : end - i, u->channel + channel};
    if (!u->channel) {
        run.length = each && run.length > SCALES_PIECE ? SCALES_PIECE : run.length;
        run.channel = side;
        channel_scales_f32(side, u->scales, u->over, u->rest, channel, each ? run.length : 1);
    }
    return run;
}

static inline int32_t clamp_s32(int32_t x, int32_t limit)
{
    x = x < -limit ? -limit : x;
    return x > limit ? limit : x;
}

/* A float as its sign and its size; sizes are ordered like the integers they are stored as. */
typedef union {
    float f;
    uint32_t u;
} float_bits;

/* |x|, at most limit. In integers, because gcc does not vectorise a clamp of floats followed by a conversion. */
static inline float size_within(float x, float limit)
{
    float_bits v, most;
    v.f = x;
    most.f = limit;
    v.u &= 0x7fffffffu;
    v.u = v.u < most.u ? v.u : most.u;
    return v.f;
}

static inline uint32_t sign_of(float x)
{
    float_bits v;
    v.f = x;
    return v.u >> 31;
}

/* x, limited to +-limit */
static inline float within(float x, float limit)
{
    float_bits v;
    v.f = size_within(x, limit);
    v.u |= sign_of(x) << 31;
    return v.f;
}

/* the nearest integer, ties up, limited to +-limit */
static inline int32_t round_nearest(float x, float limit)
{
    const float y = within(x, limit) + 0.5f;
    const int32_t i = (int32_t)y;
    return i - (y < (float)i);
}

/* One of the two neighbours of x, at random so that the mean is x; limited to +-limit.
 * Works on the size, where the fraction is exact: the mean is x to within 2^-31. */
static inline int32_t round_random(float x, float limit, uint32_t bits)
{
    const float size = size_within(x, limit);
    const int32_t whole = (int32_t)size, sign = -(int32_t)sign_of(x);
    const int32_t chance = (int32_t)((size - (float)whole) * 2147483648.0f);
    const int32_t moved = whole + ((int32_t)(bits >> 1) < chance);
    return (moved ^ sign) - sign;
}

#endif
