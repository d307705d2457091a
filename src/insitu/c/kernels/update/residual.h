/* The step of a weight with a byte of fraction: what sgd_residual_s8 does to all of it, and its tiles to a part. */
#ifndef INSITU_RESIDUAL_H
#define INSITU_RESIDUAL_H

#include "kernels/update/update.h"

static inline int32_t residual_run(int8_t *restrict w, int8_t *restrict r, const float *restrict dw,
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

/* elements first..end-1; dw starts with the first of them; returns how many saturated */
static inline int32_t residual_step(int8_t *w, int8_t *r, const float *dw, float rate, float factor, int32_t first,
                                    int32_t end, const integer_update *u)
{
    const float scaled = rate * factor, shrink = rate * u->decay;
    int32_t saturated = 0;
    float side[SCALES_PIECE];
    for (int32_t i = first; factor != 0.0f && i < end;) {
        const update_run run = run_at(u, i, end, side);
        const float *d = dw + (i - first);
        saturated += u->inner == 1 ? residual_run(w + i, r + i, d, run.channel, 1, scaled, shrink, run.length)
                                   : residual_run(w + i, r + i, d, run.channel, 0, scaled, shrink, run.length);
        i += run.length;
    }
    return saturated;
}

#endif
