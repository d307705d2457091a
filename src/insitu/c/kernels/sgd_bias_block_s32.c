/* b -= round(rate factor scale db 2^e channel[..]), in place; saturates, counted. Floats: one product a channel.
 * Element i of db is channel i, whose group has an exponent; `channels` of them, inner is 1.
 */
#include "block_update.h"

void sgd_bias_block_s32(int32_t *b, int32_t *count, const int32_t *db, const int8_t *e, const float *rate, float scale,
                        int32_t channels, int32_t inner, const integer_update *u)
{
    const block_gradient g = {db, e, scale, u->n, channels, inner};
    const float factor = block_factor(block_squares(&g, 0.0f), *rate, u->clip, count), scaled = *rate * factor * scale;
    int32_t saturated = 0;
    float side[SCALES_PIECE];
    for (int32_t i = 0; factor != 0.0f && i < u->n; i++) {
        if (!u->channel && i % SCALES_PIECE == 0) {
            channel_scales_f32(side, u->scales, u->over, u->rest, i, block_width(i, u->n));
        }
        const float real = scaled * (u->channel ? u->channel[u->channels > 1 ? i : 0] : side[i % SCALES_PIECE]);
        const block_multiplier by = block_multiplier_of(real, e[i / BLOCK_GROUP]);
        const int32_t was = b[i];
        const int32_t step =
            block_is_upper(&by) ? block_upper(db[i], by.whole, by.shift) : block_times(db[i], &by, 1 << 30);
        const int32_t now = (int32_t)((uint32_t)was - (uint32_t)step);
        const int32_t over = ((was ^ step) & (was ^ now)) < 0;
        b[i] = !over ? now : was < 0 ? INT32_MIN : INT32_MAX;
        saturated += over;
    }
    count[2] += saturated;
}
