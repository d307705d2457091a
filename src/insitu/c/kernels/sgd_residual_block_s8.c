/* The 16-bit number w + r/256 moves by -rate (factor scale dw 2^e channel[..] + decay (w + r/256)), each to the nearest
 * 1/256, in place. Saturates at +-127, counted. Floats: a few in all and one product a channel. Element i of dw belongs
 * to channel i / inner % channels, whose group has an exponent.
 */
#include "block_update.h"

enum { FAR = 65536 };

/* w + r/256 moves from `was` to `now`, in 1/256; whether it saturates */
ALWAYS_INLINE int32_t move(int8_t *w, int8_t *r, int32_t now)
{
    const int32_t kept = clamp_s32(now, 127 * 256), whole = (kept + 128) >> 8;
    *w = (int8_t)whole;
    *r = (int8_t)(kept - whole * 256);
    return now != kept;
}

static int32_t row(int8_t *w, int8_t *r, const int32_t *dw, const block_multiplier *by, const block_multiplier *shrink,
                   int32_t n)
{
    int32_t saturated = 0;
    if (!shrink->whole && block_is_upper(by)) { /* a step beyond FAR ends where FAR does */
        const int32_t whole = by->whole, shift = by->shift;
        for (int32_t i = 0; i < n; i++) {
            saturated += move(w + i, r + i, w[i] * 256 + r[i] - block_upper(dw[i], whole, shift));
        }
        return saturated;
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t was = w[i] * 256 + r[i], decay = shrink->whole ? block_times(was, shrink, FAR) : 0;
        saturated += move(w + i, r + i, was - (block_times(dw[i], by, FAR) + decay));
    }
    return saturated;
}

void sgd_residual_block_s8(int8_t *w, int8_t *r, int32_t *count, const int32_t *dw, const int8_t *e, const float *rate,
                           float scale, int32_t channels, int32_t inner, const integer_update *u)
{
    const block_gradient g = {dw, e, scale, u->n, channels, inner};
    const float factor = block_factor(&g, *rate, u->clip, count), scaled = *rate * factor * scale;
    const block_multiplier shrink = block_multiplier_of(*rate * u->decay, 0);
    for (int32_t i = 0; factor != 0.0f && i < u->n;) {
        const update_run run = run_at(u, i, u->n);
        const block_run block = block_run_at(&g, i);
        const int32_t same = u->inner == 1 && u->channels > 1 ? 1 : run.length;
        const int32_t length = same < block.length ? same : block.length;
        const block_multiplier by = block_multiplier_of(scaled * *run.channel, block.e + 8);
        count[2] += row(w + i, r + i, dw + i, &by, &shrink, length);
        i += length;
    }
}
