/* b -= round(rate factor db channel[..]), in place; saturates, counted. */
#include "kernels/update/update.h"
#include "numbers/count.h"

static inline int32_t row(int32_t *restrict b, const float *restrict db, const float *restrict channel, int32_t stride,
                          float scaled, int32_t n)
{
    int32_t saturated = 0;
    for (int32_t i = 0; i < n; i++) {
        const int64_t now = (int64_t)b[i] - round_nearest(scaled * db[i] * channel[i * stride], 1073741824.0f);
        b[i] = now > INT32_MAX ? INT32_MAX : now < INT32_MIN ? INT32_MIN : (int32_t)now;
        saturated += b[i] != now;
    }
    return saturated;
}

void sgd_bias_s32(int32_t *b, int32_t *count, const float *db, const float *rate, const integer_update *u)
{
    const float factor = clip_factor(db, *rate, u->clip, count, u->n), scaled = *rate * factor;
    float side[SCALES_PIECE];
    for (int32_t i = 0; factor != 0.0f && i < u->n;) {
        const update_run run = run_at(u, i, u->n, side);
        count_more(count + 2, u->inner == 1 ? row(b + i, db + i, run.channel, 1, scaled, run.length)
                                  : row(b + i, db + i, run.channel, 0, scaled, run.length));
        i += run.length;
    }
}
