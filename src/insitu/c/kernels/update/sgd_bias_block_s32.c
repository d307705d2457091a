/* b -= round(rate factor scale db 2^e channel[..]), in place; saturates, counted. Floats: one product per channel.
 * Element i of db is channel i, whose group has an exponent; `channels` of them, inner is 1.
 */
#include "kernels/update/block_update.h"
#include "numbers/count.h"

/* any step: limited to +-2^30 */
APART int32_t far_step(int32_t db, float by, int32_t e)
{
    const block_multiplier any = block_multiplier_of(by, e);
    return times_s32b(db, &any, 1 << 30);
}

ALWAYS_INLINE int32_t step(int32_t db, float by, int32_t e)
{
    block_float v;
    v.f = by;
    const uint32_t exponent = v.u >> 23 & 255u;
    const int32_t shift = 150 - (int32_t)exponent - e, sign = (int32_t)v.u >> 31;
    if (exponent - 1u > 253u || shift < STEP_UPPER) {
        return far_step(db, by, e);
    }
    const int32_t size = (int32_t)((v.u & 0x7fffffu) | 0x800000u);
    return step_of(db, (size ^ sign) - sign, shift);
}

/* one group of n channels; `each` is 0 if they share one number */
static int32_t group(int32_t *b, const int32_t *db, int32_t e, float scaled, const float *channel, int32_t each,
                     int32_t n)
{
    int32_t saturated = 0;
    for (const int32_t *end = db + n; db < end; channel += each, b++) {
        const int32_t by = step(*db++, scaled * *channel, e), was = *b;
        int32_t now = (int32_t)((uint32_t)was - (uint32_t)by);
        if (((was ^ by) & (was ^ now)) < 0) {
            now = was < 0 ? INT32_MIN : INT32_MAX;
            saturated++;
        }
        *b = now;
    }
    return saturated;
}

void sgd_bias_block_s32(int32_t *b, int32_t *count, const int32_t *db, const int8_t *e, const float *rate, float scale,
                        int32_t channels, int32_t inner, const integer_update *u)
{
    const block_gradient g = {db, e, scale, u->n, channels, inner};
    const float factor = block_factor(squares_s32b(0.0f, &g), *rate, u->clip, count), scaled = *rate * factor * scale;
    float side[SCALES_PIECE];
    for (int32_t k = 0; factor != 0.0f && k < u->n; k += BLOCK_GROUP, e++) {
        const int32_t n = block_width(k, u->n);
        const float *channel = block_scales(u, k, n, side);
        count_more(count + 2, group(b + k, db + k, *e, scaled, channel, u->channels > 1, n));
    }
}
