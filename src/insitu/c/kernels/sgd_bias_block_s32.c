/* b -= round(rate factor scale db 2^e channel[..]), in place; saturates, counted. Floats: one product a channel. */
#include "block_update.h"

void sgd_bias_block_s32(int32_t *b, int32_t *count, const int32_t *db, const int8_t *e, const float *rate, float scale,
                        const integer_update *u)
{
    const float factor = block_factor(db, *e, scale, *rate, u->clip, count, u->n), scaled = *rate * factor * scale;
    for (int32_t i = 0; factor != 0.0f && i < u->n; i++) {
        const update_run run = run_at(u, i, u->n);
        const block_multiplier by = block_multiplier_of(scaled * *run.channel, *e);
        const int64_t now = (int64_t)b[i] - block_times(db[i], &by, 1 << 30);
        b[i] = now > INT32_MAX ? INT32_MAX : now < INT32_MIN ? INT32_MIN : (int32_t)now;
        count[2] += b[i] != now;
    }
}
