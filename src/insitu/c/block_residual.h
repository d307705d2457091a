/* The step of a weight with a byte of fraction by an integer gradient: what sgd_residual_block_s8 does to all of it, and
 * its tiles to a part.
 */
#ifndef INSITU_BLOCK_RESIDUAL_H
#define INSITU_BLOCK_RESIDUAL_H

#include "block_update.h"

enum { RESIDUAL_FAR = 65536 };

/* w + r/256 becomes `now`, in 1/256; whether it saturates */
ALWAYS_INLINE int32_t block_residual_put(int8_t *w, int8_t *r, int32_t now)
{
    const int32_t kept = clamp_s32(now, 127 * 256);
    *w = (int8_t)((kept + 128) >> 8);
    *r = (int8_t)kept; /* what is left of it is its lowest byte */
    return now != kept;
}

static inline int32_t block_residual_run(int8_t *w, int8_t *r, const int32_t *dw, const block_multiplier *by,
                                         const block_multiplier *shrink, int32_t n)
{
    int32_t saturated = 0;
    if (!shrink->whole && block_is_upper(by)) { /* a step beyond RESIDUAL_FAR ends where that does */
        const int32_t whole = by->whole, shift = by->shift;
        for (int32_t i = 0; i < n; i++) {
            saturated += block_residual_put(w + i, r + i, w[i] * 256 + r[i] - block_upper(dw[i], whole, shift));
        }
        return saturated;
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t was = w[i] * 256 + r[i], decay = shrink->whole ? block_times(was, shrink, RESIDUAL_FAR) : 0;
        saturated += block_residual_put(w + i, r + i, was - (block_times(dw[i], by, RESIDUAL_FAR) + decay));
    }
    return saturated;
}

/* the elements from `first` on that g has; how many of them saturated */
static inline int32_t block_residual_step(int8_t *w, int8_t *r, const block_gradient *g, float rate, float factor,
                                          int32_t first, const integer_update *u)
{
    const float scaled = rate * factor * g->scale;
    const block_multiplier shrink = block_multiplier_of(rate * u->decay, 0);
    const int32_t each = u->inner == 1 && u->channels > 1; /* every element has a channel of its own */
    int32_t saturated = 0;
    float side[SCALES_PIECE];
    for (int32_t i = 0; factor != 0.0f && i < g->n;) {
        const update_run run = run_at(u, first + i, first + (each ? i + 1 : g->n), side);
        const block_run block = block_run_at(g, i);
        const int32_t length = run.length < block.length ? run.length : block.length;
        const block_multiplier by = block_multiplier_of(scaled * *run.channel, block.e + 8);
        saturated += block_residual_run(w + first + i, r + first + i, g->m + i, &by, &shrink, length);
        i += length;
    }
    return saturated;
}

#endif
