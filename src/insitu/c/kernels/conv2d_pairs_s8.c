/* acc[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped; one group. Weights lie as declared, w[o,kh,kw,c],
 * and are used where they lie; b may be null. Padding holds x_zero.
 * The windows of `tile` pixels (a multiple of four) are widened to 16 bits once, then meet two outputs' weights at a
 * time: see isa/pairs.h.
 * Scratch, with k = kh kw c rounded up to a multiple of four: 2 tile k bytes (windows), 4 k (weights), 4 k (four
 * windows as they lie in x; none for 1x1 kernels that move by one). Not in place.
 */
#include "isa/copy.h"
#include "isa/pairs.h"
#include "kernels.h"
#include "spans.h"

static void fill_s8(int8_t *to, int32_t value, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = (int8_t)value;
    }
}

/* a kernel row of taps from pixel q on of a row of x; null is a row of padding */
static inline void window_row(int8_t *to, const int8_t *row, int32_t q, const conv2d_shape *s, int32_t zero)
{
    if (row && s->dw == 1 && q >= 0 && q + s->kw <= s->w) {
        copy_run(to, row + q * s->c, s->kw * s->c);
        return;
    }
    for (int32_t v = 0; v < s->kw; v++, to += s->c, q += s->dw) {
        if (row && q >= 0 && q < s->w) {
            copy_run(to, row + q * s->c, s->c);
        } else {
            fill_s8(to, zero, s->c);
        }
    }
}

/* the window of output p, one of all pixels of all images */
static void window_s8(int8_t *to, const int8_t *x, int32_t p, const conv2d_shape *s, int32_t zero)
{
    const int32_t j = p % s->ow, i = p / s->ow % s->oh, n = p / s->ow / s->oh;
    const int8_t *image = x + n * s->h * s->w * s->c;
    for (int32_t u = 0; u < s->kh; u++, to += s->kw * s->c) {
        const int32_t r = row_under(s, i, u);
        window_row(to, r < 0 ? NULL : image + r * s->w * s->c, j * s->sw - s->pl, s, zero);
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
        pairs_widen4(to, rows, zero, k);
    }
}

/* two outputs of some pixels from o on: what each is requantised to, and where */
typedef struct {
    int8_t *y;
    uint8_t *mask;
    int32_t o, outs, y_row, mask_row;
} place;

/* the bits of two neighbouring outputs; the first of a byte clears the rest */
static inline void put_bits(uint8_t *mask, int32_t o, uint32_t bits)
{
    mask[o >> 3] = (uint8_t)((o & 7) == 0 ? bits : mask[o >> 3] | (bits << (o & 7)));
}

static void store_sums(place to, const int32_t *acc, int32_t count, const requant *q)
{
    for (; count > 0; count--, acc += PAIRS_OUTPUTS, to.y += to.y_row) {
        for (int32_t i = 0; i < to.outs; i++) {
            to.y[i] = requant_masked(to.mask, acc[i], to.o + i, q);
        }
        to.mask = to.mask ? to.mask + to.mask_row : NULL;
    }
}

/* the same, the quick way, two outputs with their mask */
static void store_quick(place to, const int32_t *acc, int32_t count, const quick_requant *two, int32_t lo, int32_t hi)
{
    const quick_requant a = two[0], b = two[1];
    for (; count > 0; count--, acc += PAIRS_OUTPUTS, to.y += to.y_row, to.mask += to.mask_row) {
        const int32_t u = quick_value(acc[0], &a), v = quick_value(acc[1], &b);
        const int32_t cu = u < lo ? lo : u > hi ? hi : u, cv = v < lo ? lo : v > hi ? hi : v;
        to.y[0] = (int8_t)cu;
        to.y[1] = (int8_t)cv;
        put_bits(to.mask, to.o, (uint32_t)(u == cu) | (uint32_t)(v == cv) << 1);
    }
}

enum { SUMS_PIXELS = 16 }; /* whose sums are kept until they are stored */

/* `count` pixels from the i-th of the tile on */
static void some_sums(pairs_task t, place to, int32_t i, int32_t count, int quick, int32_t length, const requant *q)
{
    int32_t acc[SUMS_PIXELS * PAIRS_OUTPUTS];
    t.y = (int8_t *)acc;
    for (int32_t end = i + count; i < end; i += SUMS_PIXELS) {
        const int32_t some = end - i < SUMS_PIXELS ? end - i : SUMS_PIXELS;
        place now = to;
        now.y += i * to.y_row;
        now.mask = to.mask ? to.mask + i * to.mask_row : NULL;
        t.x_end = t.x + (some + PAIRS_PIXELS - 1) / PAIRS_PIXELS * PAIRS_PIXELS * length;
        pairs_sums(&t);
        t.x = t.x_end;
        if (quick && to.mask) {
            store_quick(now, acc, some, t.q, q->lo, q->hi);
        } else {
            store_sums(now, acc, some, q);
        }
    }
}

/* Two outputs' weights and bias, and how they are requantised; gives whether that has a quick way. */
static int two_outputs(pairs_task *t, const int8_t *w, const int32_t *b, int32_t o, int32_t last, int32_t k,
                       const requant *q)
{
    const int8_t *rows[PAIRS_OUTPUTS] = {w + o * k, w + last * k};
    const int32_t start = b ? b[o] : 0, next = b ? b[last] : 0;
    pairs_widen2((int16_t *)t->w, rows, k);
    for (int32_t i = 0; i < PAIRS_BLOCK; i += PAIRS_OUTPUTS) {
        t->start[i] = start;
        t->start[i + 1] = next;
    }
    return quick_of(&t->q[0], o, q) && quick_of(&t->q[1], last, q) && last > o;
}

void conv2d_pairs_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t tile,
                     const conv2d_shape *s, const requant *q, void *scratch)
{
    const int32_t k = s->kh * s->kw * s->c, length = pairs_length(k), pixels = s->n * s->oh * s->ow;
    const int plain = !mask && q->lo == -128 && q->hi == 127;
    int16_t *windows = (int16_t *)scratch, *weights = windows + tile * length;
    pairs_task t = {.w = weights, .w_end = weights + PAIRS_OUTPUTS * length, .y_row = s->o};
    for (int32_t p = 0; p < pixels; p += tile) {
        const int32_t count = pixels - p < tile ? pixels - p : tile, whole = count / PAIRS_PIXELS * PAIRS_PIXELS;
        widen_windows(windows, x, p, count, s, q->x_zero, (int8_t *)t.w_end);
        for (int32_t o = 0; o < s->o; o += PAIRS_OUTPUTS) {
            const int32_t last = o + 1 < s->o ? o + 1 : o;
            const int quick = two_outputs(&t, w, b, o, last, k, q);
            const int32_t done = quick && plain ? whole : 0;
            t.x = windows;
            t.x_end = windows + done * length;
            t.y = y + p * s->o + o;
            if (done) {
                pairs_quick(&t);
                t.x = t.x_end;
            }
            if (done < count) {
                const place to = {t.y, mask_row(mask, p, s->o), o, last - o + 1, s->o, (s->o + 7) / 8};
                some_sums(t, to, done, count - done, quick, length, q);
            }
        }
    }
}
