/* The mean of the window's taps that lie on x; with count_pad the padding counts, as x_zero. Two roundings:
 *   single   requantised sum of (x - x_zero), multiplier [count - 1] of q
 *   litert   round_half_away(sum of x / count), clamped: input and output have one scale
 * Scratch: 4 c bytes, the sums. Every window has a tap on x. Not in place.
 */
#include "isa.h"
#include "kernels.h"

static int8_t rounded(int32_t sum, int32_t count, const requant *q)
{
    const int32_t mean = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
    return (int8_t)(mean < q->lo ? q->lo : mean > q->hi ? q->hi : mean);
}

static void window(int8_t *y, const int8_t *x, const conv2d_shape *s, int32_t count_pad, const requant *q, int32_t *acc,
                   int32_t r0, int32_t q0)
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
        y[c] = litert ? rounded(acc[c], count, q) : requant_at(acc[c], count - 1, q);
    }
}

void avg_pool2d_s8(int8_t *y, const int8_t *x, const conv2d_shape *s, int32_t count_pad, const requant *q,
                   void *scratch)
{
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++, y += s->c) {
                window(y, x, s, count_pad, q, (int32_t *)scratch, i * s->sh - s->pt, j * s->sw - s->pl);
            }
        }
    }
}
