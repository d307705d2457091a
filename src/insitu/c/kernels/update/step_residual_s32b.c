/* The elements of w + r/256 from `first` on that g has move by -rate (factor g channel[..] + decay (w + r/256)), each
 * to the nearest 1/256: sgd_residual_block_s8 for all, its tiles for a part. Returns how many saturate at +-127.
 */
#include "kernels/update/block_update.h"

enum { FAR = 65536 };

/* From this size on, a gradient goes FAR: channels with tiny scales step from limit to limit. A multiplier that is not 0
 * has 24 bits. */
static uint32_t far_from(const block_multiplier *by)
{
    const int32_t bits = by->shift - 7;
    return !by->whole || bits > 30 ? 0xffffffffu : bits > 0 ? 1u << bits : 1u;
}

/* every `apart`th of w, r and dw, n of them, with any multiplier and decay */
static int32_t any(int8_t *w, int8_t *r, const int32_t *dw, int32_t apart, int32_t n, const block_multiplier *by,
                   const block_multiplier *shrink)
{
    const uint32_t far = far_from(by);
    int32_t saturated = 0;
    for (int32_t i = 0; i < n * apart; i += apart) {
        const int32_t was = w[i] * 256 + r[i], decay = shrink->whole ? times_s32b(was, shrink, FAR) : 0;
        const int32_t up = (dw[i] ^ by->whole) < 0 ? -FAR : FAR;
        const int32_t step = block_size_of(dw[i]) >= far ? up : dw[i] ? times_s32b(dw[i], by, FAR) : 0;
        saturated += step_put(w + i, r + i, was - (step + decay));
    }
    return saturated;
}

static int32_t run(int8_t *w, int8_t *r, const int32_t *dw, int32_t apart, int32_t n, const block_multiplier *by,
                   const block_multiplier *shrink)
{
    if (shrink->whole || by->shift < STEP_LEAST || by->endless) {
        return any(w, r, dw, apart, n, by, shrink);
    }
    return apart == 1 ? step_residual(w, r, dw, n, by->whole, by->shift) /* a step beyond FAR ends at the same place */
                      : step_residual_apart(w, r, dw, apart, n, by->whole, by->shift);
}

/* One group of channels, which begins with channel k of g; `one` if all share one number. Those that share it are one
 * run; if a channel has one element per row, its elements of all rows are. */
static int32_t group(int8_t *w, int8_t *r, const block_gradient *g, int32_t k, const float *channel, float scaled,
                     const block_multiplier *shrink, int32_t one)
{
    const int32_t width = block_width(k, g->channels), row = g->channels * g->inner;
    const int32_t step = one ? width : 1, each = step * g->inner, apart = each == 1 ? row : 1;
    int32_t saturated = 0;
    for (int32_t c = 0; c < width; c += step) {
        const block_multiplier by = block_multiplier_of(scaled * channel[c], g->e[k / BLOCK_GROUP] + 8);
        const int32_t n = apart == 1 ? each : g->n / row;
        for (int32_t at = (k + c) * g->inner; at < g->n; at += apart == 1 ? row : g->n) {
            saturated += run(w + at, r + at, g->m + at, apart, n, &by, shrink);
        }
    }
    return saturated;
}

int32_t step_residual_s32b(int8_t *w, int8_t *r, const block_gradient *g, float rate, float factor, int32_t first,
                           const integer_update *u)
{
    const float scaled = rate * factor * g->scale;
    const block_multiplier shrink = block_multiplier_of(rate * u->decay, 0);
    int32_t saturated = 0;
    float side[SCALES_PIECE];
    for (int32_t k = 0; factor != 0.0f && k < g->channels; k += BLOCK_GROUP) {
        const float *channel = block_scales(u, first / g->inner + k, block_width(k, g->channels), side);
        saturated += group(w + first, r + first, g, k, channel, scaled, &shrink, u->channels == 1);
    }
    return saturated;
}
