/* The 12-bit number w + r/16 moves by -rate (factor dw channel[..] + decay (w + r/16)), rounded to 1/16 at random so
 * that the mean is right, in place. There are two residuals per byte, that of the even element in the low half.
 * Saturates at +-127, counted.
 */
#include "kernels/update/update.h"
#include "numbers/random.h"
#include "numbers/count.h"

enum { BLOCK = 128 }; /* residuals unpacked at a time: even, so that a block starts on a byte */

static void unpack(int8_t *restrict r, const uint8_t *restrict packed, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t half = packed[i >> 1] >> (i & 1) * 4 & 15;
        r[i] = (int8_t)((half ^ 8) - 8);
    }
}

static void pack(uint8_t *restrict packed, const int8_t *restrict r, int32_t n)
{
    for (int32_t i = 0; i < n; i += 2) {
        packed[i >> 1] = (uint8_t)((r[i] & 15) | (i + 1 < n ? r[i + 1] & 15 : 0) << 4);
    }
}

static inline int32_t row(int8_t *restrict w, int8_t *restrict r, const float *restrict dw,
                          const float *restrict channel, int32_t stride, float scaled, float shrink, uint32_t key,
                          int32_t first, int32_t n)
{
    int32_t saturated = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t was = w[i] * 16 + r[i];
        const float step = scaled * dw[i] * channel[i * stride] * 16.0f + shrink * (float)was;
        const int32_t now = was - round_random(step, 65536.0f, random_at(key, first + i));
        const int32_t kept = clamp_s32(now, 127 * 16);
        const int32_t whole = (kept + 8) >> 4;
        saturated += now != kept;
        w[i] = (int8_t)whole;
        r[i] = (int8_t)(kept - whole * 16);
    }
    return saturated;
}

void sgd_residual4_s8(int8_t *w, uint8_t *packed, int32_t *count, const float *dw, const float *rate,
                      const int32_t *step, const integer_update *u)
{
    const float factor = clip_factor(dw, *rate, u->clip, count, u->n);
    const float scaled = *rate * factor, shrink = *rate * u->decay;
    const uint32_t key = random_key(*step, u->stream);
    float side[SCALES_PIECE];
    int8_t r[BLOCK];
    for (int32_t start = 0; factor != 0.0f && start < u->n; start += BLOCK) {
        const int32_t end = u->n - start < BLOCK ? u->n : start + BLOCK;
        unpack(r, packed + start / 2, end - start);
        for (int32_t i = start; i < end;) {
            const update_run run = run_at(u, i, end, side);
            int8_t *part = r + (i - start);
            count_more(count + 2, u->inner == 1 ? row(w + i, part, dw + i, run.channel, 1, scaled, shrink, key, i, run.length)
                                      : row(w + i, part, dw + i, run.channel, 0, scaled, shrink, key, i, run.length));
            i += run.length;
        }
        pack(packed + start / 2, r, end - start);
    }
}
