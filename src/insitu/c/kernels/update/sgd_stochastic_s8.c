/* w -= rate (factor dw channel[..] + decay w), rounded at random so that the mean is right, in place.
 * Saturates at +-127, counted.
 */
#include "kernels/update/update.h"
#include "numbers/random.h"
#include "numbers/count.h"

static inline int32_t row(int8_t *restrict w, const float *restrict dw, const float *restrict channel, int32_t stride,
                          float scaled, float shrink, uint32_t key, int32_t first, int32_t n)
{
    int32_t saturated = 0;
    for (int32_t i = 0; i < n; i++) {
        const float step = scaled * dw[i] * channel[i * stride] + shrink * (float)w[i];
        const int32_t now = w[i] - round_random(step, 65536.0f, random_at(key, first + i));
        const int32_t kept = clamp_s32(now, 127);
        saturated += now != kept;
        w[i] = (int8_t)kept;
    }
    return saturated;
}

void sgd_stochastic_s8(int8_t *w, int32_t *count, const float *dw, const float *rate, const int32_t *step,
                       const integer_update *u)
{
    const float factor = clip_factor(dw, *rate, u->clip, count, u->n);
    const float scaled = *rate * factor, shrink = *rate * u->decay;
    const uint32_t key = random_key(*step, u->stream);
    float side[SCALES_PIECE];
    for (int32_t i = 0; factor != 0.0f && i < u->n;) {
        const update_run run = run_at(u, i, u->n, side);
        count_more(count + 2, u->inner == 1 ? row(w + i, dw + i, run.channel, 1, scaled, shrink, key, i, run.length)
                                  : row(w + i, dw + i, run.channel, 0, scaled, shrink, key, i, run.length));
        i += run.length;
    }
}
