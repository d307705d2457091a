/* The 16-bit number w + r/256 moves by -rate (factor scale dw 2^e channel[..] + decay (w + r/256)), each to the nearest
 * 1/256, in place. Saturates at +-127, counted. Floats: a few in all and one product a channel. Element i of dw belongs
 * to channel i / inner % channels, whose group has an exponent.
 */
#include "block_update.h"

enum { FAR = 65536 };

static int32_t row(int8_t *w, int8_t *r, const int32_t *dw, const block_multiplier *by, const block_multiplier *shrink,
                   int32_t n)
{
    int32_t saturated = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t was = w[i] * 256 + r[i], decay = shrink->whole ? block_times(was, shrink, FAR) : 0;
        const int32_t now = was - (block_times(dw[i], by, FAR) + decay), kept = clamp_s32(now, 127 * 256);
        const int32_t whole = (kept + 128) >> 8;
        saturated += now != kept;
        w[i] = (int8_t)whole;
        r[i] = (int8_t)(kept - whole * 256);
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
