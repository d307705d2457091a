/* The 16-bit number w + r/256 moves by -rate (factor dw channel[..] + decay (w + r/256)), to the nearest 1/256, in
 * place. Saturates at +-127, counted.
 */
#include "update.h"

static inline int32_t row(int8_t *restrict w, int8_t *restrict r, const float *restrict dw,
                          const float *restrict channel, int32_t stride, float scaled, float shrink, int32_t n)
{
    int32_t saturated = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t was = w[i] * 256 + r[i];
        const float step = scaled * dw[i] * channel[i * stride] * 256.0f + shrink * (float)was;
        const int32_t now = was - round_nearest(step, 65536.0f), kept = clamp_s32(now, 127 * 256);
        const int32_t whole = (kept + 128) >> 8;
        saturated += now != kept;
        w[i] = (int8_t)whole;
        r[i] = (int8_t)(kept - whole * 256);
    }
    return saturated;
}

void sgd_residual_s8(int8_t *w, int8_t *r, int32_t *count, const float *dw, const float *rate, const integer_update *u)
{
    const float factor = clip_factor(dw, *rate, u->clip, count, u->n);
    const float scaled = *rate * factor, shrink = *rate * u->decay;
    for (int32_t i = 0; factor != 0.0f && i < u->n;) {
        const update_run run = run_at(u, i, u->n);
        count[2] += u->inner == 1 ? row(w + i, r + i, dw + i, run.channel, 1, scaled, shrink, run.length)
                                  : row(w + i, r + i, dw + i, run.channel, 0, scaled, shrink, run.length);
        i += run.length;
    }
}
