/* b -= round(rate factor scale db 2^e channel[..]), in place; saturates, counted. Floats: one product a channel. Element
 * i of db belongs to channel i / inner % channels, whose group has an exponent. */
#include "block_update.h"

void sgd_bias_block_s32(int32_t *b, int32_t *count, const int32_t *db, const int8_t *e, const float *rate, float scale,
                        int32_t channels, int32_t inner, const integer_update *u)
{
    const block_gradient g = {db, e, scale, u->n, channels, inner};
    const float factor = block_factor(&g, *rate, u->clip, count), scaled = *rate * factor * scale;
    for (int32_t i = 0; factor != 0.0f && i < u->n; i++) {
        const update_run run = run_at(u, i, u->n);
        const block_multiplier by = block_multiplier_of(scaled * *run.channel, block_run_at(&g, i).e);
        const int64_t now = (int64_t)b[i] - block_times(db[i], &by, 1 << 30);
        b[i] = now > INT32_MAX ? INT32_MAX : now < INT32_MIN ? INT32_MIN : (int32_t)now;
        count[2] += b[i] != now;
    }
}
