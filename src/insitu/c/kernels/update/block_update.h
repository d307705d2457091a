/* What the updates of integer parameters by integer gradients share: m 2^e scale. The meaning is in
 * ops/block_update.py.
 */
#ifndef INSITU_BLOCK_UPDATE_H
#define INSITU_BLOCK_UPDATE_H

#include "isa/steps.h"
#include "kernels/block/block_rows.h"
#include "kernels/update/block_gradient.h"
#include "kernels/update/norm.h"
#include "kernels/update/update.h"
#include "numbers/mathf.h"
#include "numbers/count.h"

/* clip_factor of a gradient whose norm has this square */
static inline float block_factor(float squares, float rate, float clip, int32_t *count)
{
    if (rate == 0.0f || !(rate - rate == 0.0f)) {
        return 0.0f;
    }
    if (!(squares - squares == 0.0f)) {
        count_more(count, 1);
        return 0.0f;
    }
    return limit_factor(insitu_sqrtf(squares), rate, clip, count);
}

/* a float times 2^e; products with an infinite one are not shifted but end at the limit */
static inline block_multiplier block_multiplier_of(float by, int32_t e)
{
    block_float v;
    v.f = by;
    const int32_t exponent = (int32_t)(v.u >> 23 & 255u);
    const block_multiplier found = {exponent ? block_whole(v.u) : 0, 150 - exponent - e, exponent == 255};
    return found;
}

/* the factors of the steps of n channels of u, at most SCALES_PIECE; one for all if u has one */
static inline const float *block_scales(const integer_update *u, int32_t channel, int32_t n, float *side)
{
    if (!u->channel) {
        channel_scales_f32(side, u->scales, u->over, u->rest, channel, n);
        return side;
    }
    return u->channel + (u->channels > 1 ? channel : 0);
}

#endif
