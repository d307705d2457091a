/* m -= rate (factor dw channel[..] + decay m); w = round(m): the weight with a float copy m in the same unit, in
 * place. Both saturate at +-127, counted.
 */
#include "kernels/update/update.h"
#include "numbers/count.h"

static inline int32_t row(int8_t *restrict w, float *restrict m, const float *restrict dw,
                          const float *restrict channel, int32_t stride, float scaled, float shrink, int32_t n)
{
    int32_t saturated = 0;
    for (int32_t i = 0; i < n; i++) {
        const float now = m[i] - (scaled * dw[i] * channel[i * stride] + shrink * m[i]);
        const float kept = within(now, 127.0f);
        saturated += now != kept;
        m[i] = kept;
        w[i] = (int8_t)round_nearest(kept, 127.0f);
    }
    return saturated;
}

void sgd_master_s8(int8_t *w, float *m, int32_t *count, const float *dw, const float *rate, const integer_update *u)
{
    const float factor = clip_factor(dw, *rate, u->clip, count, u->n);
    const float scaled = *rate * factor, shrink = *rate * u->decay;
    float side[SCALES_PIECE];
    for (int32_t i = 0; factor != 0.0f && i < u->n;) {
        const update_run run = run_at(u, i, u->n, side);
        count_more(count + 2, u->inner == 1 ? row(w + i, m + i, dw + i, run.channel, 1, scaled, shrink, run.length)
                                  : row(w + i, m + i, dw + i, run.channel, 0, scaled, shrink, run.length));
        i += run.length;
    }
}
