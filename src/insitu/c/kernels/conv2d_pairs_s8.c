/* acc[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped; one group. Weights lie as declared, w[o,kh,kw,c],
 * and are used where they lie; b may be null. Padding holds x_zero.
 * The windows of `tile` pixels (a multiple of four) are widened to 16 bits once, then meet two outputs' weights at a
 * time: see isa/pairs.h.
 * Scratch, with k = kh kw c rounded up to a multiple of four: 2 tile k bytes (windows), 4 k (weights), 4 k (four
 * windows as they lie in x; none for 1x1 kernels that move by one). Not in place.
 */
#include "isa.h"
#include "isa/pairs.h"
#include "kernels.h"
#include "spans.h"

static void copy_s8(int8_t *to, const int8_t *from, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

static void fill_s8(int8_t *to, int32_t value, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = (int8_t)value;
    }
}

/* the window of output p, one of all pixels of all images */
static void window_s8(int8_t *to, const int8_t *x, int32_t p, const conv2d_shape *s, int32_t zero)
{
    const int32_t j = p % s->ow, i = p / s->ow % s->oh, q0 = j * s->sw - s->pl;
    const int whole = s->dw == 1 && q0 >= 0 && q0 + s->kw <= s->w;
    x += p / s->ow / s->oh * s->h * s->w * s->c;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t r = row_under(s, i, u);
        for (int32_t v = 0; v < s->kw; v++) {
            const int32_t q = q0 + v * s->dw;
            if (r >= 0 && whole) {
                copy_s8(to, x + (r * s->w + q0) * s->c, s->kw * s->c);
                to += s->kw * s->c;
                break;
            }
            if (r >= 0 && q >= 0 && q < s->w) {
                copy_s8(to, x + (r * s->w + q) * s->c, s->c);
            } else {
                fill_s8(to, zero, s->c);
            }
            to += s->c;
        }
    }
}

/* the windows of `count` pixels from p on; those that are not there are the last one again */
static void widen_windows(int16_t *to, const int8_t *x, int32_t p, int32_t count, const conv2d_shape *s, int32_t zero,
                          int8_t *side)
{
    const int32_t k = s->kh * s->kw * s->c, length = pairs_length(k);
    const int8_t *rows[PAIRS_PIXELS];
    for (int32_t i = 0; i < count; i += PAIRS_PIXELS, to += PAIRS_PIXELS * length) {
        for (int32_t r = 0; r < PAIRS_PIXELS; r++) {
            const int32_t at = p + (i + r < count ? i + r : count - 1);
            rows[r] = side + r * length;
            if (is_pointwise(s)) {
                rows[r] = x + at * s->c;
            } else {
                window_s8(side + r * length, x, at, s, zero);
            }
        }
        pairs_widen(to, rows, PAIRS_PIXELS, zero, k);
    }
}

/* what a block gives of pixel p on: `rows` pixels and `outs` outputs from o on */
static void store_block(int8_t *y, uint8_t *mask, const int32_t *acc, int32_t p, int32_t rows, int32_t o, int32_t outs,
                        int32_t width, const requant *q)
{
    for (int32_t r = 0; r < rows; r++) {
        for (int32_t i = 0; i < outs; i++) {
            y[(p + r) * width + o + i] = requant_masked(mask_row(mask, p + r, width), acc[r * PAIRS_OUTPUTS + i], o + i, q);
        }
    }
}

void conv2d_pairs_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t tile,
                     const conv2d_shape *s, const requant *q, void *scratch)
{
    const int32_t k = s->kh * s->kw * s->c, length = pairs_length(k), pixels = s->n * s->oh * s->ow;
    int16_t *windows = (int16_t *)scratch, *weights = windows + tile * length;
    int8_t *side = (int8_t *)(weights + PAIRS_OUTPUTS * length);
    int32_t acc[PAIRS_PIXELS * PAIRS_OUTPUTS];
    for (int32_t p = 0; p < pixels; p += tile) {
        const int32_t count = pixels - p < tile ? pixels - p : tile;
        widen_windows(windows, x, p, count, s, q->x_zero, side);
        for (int32_t o = 0; o < s->o; o += PAIRS_OUTPUTS) {
            const int32_t last = o + 1 < s->o ? o + 1 : o;
            const int8_t *rows[PAIRS_OUTPUTS] = {w + o * k, w + last * k};
            const int32_t start[PAIRS_OUTPUTS] = {b ? b[o] : 0, b ? b[last] : 0};
            pairs_widen(weights, rows, PAIRS_OUTPUTS, 0, k);
            for (int32_t i = 0; i < count; i += PAIRS_PIXELS) {
                const int32_t rest = count - i < PAIRS_PIXELS ? count - i : PAIRS_PIXELS;
                pairs_block(acc, windows + i * length, weights, start, length);
                store_block(y, mask, acc, p + i, rest, o, last - o + 1, s->o, q);
            }
        }
    }
}
