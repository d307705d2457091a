/* acc[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, o] - x_zero)
 * y = requantised acc, with as many outputs as inputs; w[kh,kw,o]; b may be null. Padding holds x_zero.
 * Scratch: 4 o bytes, the bias with the zero point of a whole window taken off, so that inner pixels need not.
 * Not in place.
 */
#include "isa.h"
#include "kernels.h"

static void whole_window_bias(int32_t *whole, const int8_t *w, const int32_t *b, const conv2d_shape *s, int32_t zero)
{
    for (int32_t o = 0; o < s->o; o++) {
        whole[o] = b ? b[o] : 0;
    }
    for (int32_t t = 0; t < s->kh * s->kw; t++) {
        axpy_s8(whole, w + t * s->o, 0, -zero, s->o);
    }
}

/* pixels j0..j1-1 of row i: the taps of pixel j0 are those of all */
static void run(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *b, const int32_t *whole,
                const conv2d_shape *s, int32_t i, int32_t j0, int32_t j1, const requant *q)
{
    const int32_t r0 = i * s->sh - s->pt, q0 = j0 * s->sw - s->pl;
    const tap_range rows = taps_inside(r0, s->kh, s->dh, s->h), cols = taps_inside(q0, s->kw, s->dw, s->w);
    const depthwise_run t = {
        .pixels = j1 - j0, .c = s->c, .kh = rows.last - rows.first, .kw = cols.last - cols.first,
        .step = s->sw * s->c, .row = s->dh * s->w * s->c, .col = s->dw * s->c, .w_row = s->kw * s->c,
    };
    const int all = t.kh == s->kh && t.kw == s->kw;
    x += ((r0 + rows.first * s->dh) * s->w + q0 + cols.first * s->dw) * s->c;
    w += (rows.first * s->kw + cols.first) * s->c;
    depthwise_run_s8(y + j0 * s->c, x, w, all ? whole : b, &t, all ? 0 : q->x_zero, q);
}

void depthwise2d_s8(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *b, const conv2d_shape *s,
                    const requant *q, void *scratch)
{
    int32_t *whole = (int32_t *)scratch;
    const int32_t left = (s->pl + s->sw - 1) / s->sw, room = s->w + s->pl - (s->kw - 1) * s->dw;
    const int32_t j0 = left < s->ow ? left : s->ow, fit = room > 0 ? (room + s->sw - 1) / s->sw : 0;
    const int32_t j1 = fit < j0 ? j0 : fit < s->ow ? fit : s->ow;
    whole_window_bias(whole, w, b, s, q->x_zero);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, y += s->ow * s->o) {
            for (int32_t j = 0; j < j0; j++) {
                run(y, x, w, b, whole, s, i, j, j + 1, q);
            }
            if (j0 < j1) {
                run(y, x, w, b, whole, s, i, j0, j1, q);
            }
            for (int32_t j = j1; j < s->ow; j++) {
                run(y, x, w, b, whole, s, i, j, j + 1, q);
            }
        }
    }
}
