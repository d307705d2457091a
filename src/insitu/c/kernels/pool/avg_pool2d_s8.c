/* The mean of the window's taps that lie on x; with count_pad the padding counts, as x_zero. Two roundings:
 *   single   requantised sum of (x - x_zero), multiplier [count - 1] of q
 *   litert   round_half_away(sum of x / count), clamped: input and output have one scale
 * Scratch: 4 c bytes, the sums. Every window has a tap on x. Not in place.
 */
#include "isa/primitives.h"
#include "kernels.h"
#include "kernels/mask.h"

/* the mean of a window before the clamp */
static inline int64_t value(int32_t sum, int32_t count, const requant *q)
{
    if (q->rounding == REQUANT_LITERT) {
        return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
    }
    return requant_value(sum, count - 1, q);
}

static void window(int8_t *y, mask_writer *mask, const int8_t *x, const conv2d_shape *s, int32_t count_pad,
                   const requant *q, int32_t *acc, int32_t r0, int32_t q0)
{
    const tap_range rows = taps_inside(r0, s->kh, 1, s->h), cols = taps_inside(q0, s->kw, 1, s->w);
    const int32_t inside = (rows.last - rows.first) * (cols.last - cols.first);
    const int32_t count = count_pad ? s->kh * s->kw : inside;
    const int litert = q->rounding == REQUANT_LITERT;
    for (int32_t c = 0; c < s->c; c++) {
        acc[c] = litert ? (count - inside) * q->x_zero : 0;
    }
    for (int32_t u = rows.first; u < rows.last; u++) {
        for (int32_t v = cols.first; v < cols.last; v++) {
            axpy_s8(acc, x + ((r0 + u) * s->w + q0 + v) * s->c, litert ? 0 : q->x_zero, 1, s->c);
        }
    }
    for (int32_t c = 0; c < s->c; c++) {
        const int64_t v = value(acc[c], count, q);
        if (mask->at) {
            mask_next(mask, v, q->lo, q->hi);
        }
        y[c] = (int8_t)(v < q->lo ? q->lo : v > q->hi ? q->hi : v);
    }
}

void avg_pool2d_s8(int8_t *y, uint8_t *mask, const int8_t *x, const conv2d_shape *s, int32_t count_pad,
                   const requant *q, void *scratch)
{
    mask_writer w = mask_start(mask, s->c);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++, y += s->c) {
                window(y, &w, x, s, count_pad, q, (int32_t *)scratch, i * s->sh - s->pt, j * s->sw - s->pl);
            }
        }
    }
}
