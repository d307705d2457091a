/* acc[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped; one group. Weights lie as declared, w[o,kh,kw,c],
 * and are used where they lie; b may be null. Padding holds x_zero.
 * The windows of `tile` pixels (a multiple of four) are widened to 16 bits once, then meet two outputs' weights at a
 * time: see isa/pairs.h.
 * Scratch, with k = kh kw c rounded up to a multiple of four: 512 bytes (sums), 2 tile k (windows), 4 k (weights), 4 k
 * (four windows as they lie in x; none for 1x1 kernels that move by one). Not in place.
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
static void window_row(int8_t *to, const int8_t *row, int32_t q, const conv2d_shape *s, int32_t zero)
{
    for (int32_t v = 0; v < s->kw; v++, to += s->c, q += s->dw) {
        if (row && q >= 0 && q < s->w) {
            copy_run(to, row + q * s->c, s->c);
        } else {
            fill_s8(to, zero, s->c);
        }
    }
}

/* the window of a pixel that is not whole, its first tap on r,q */
static void edge_window(int8_t *to, const int8_t *image, int32_t r, int32_t q, const conv2d_shape *s, int32_t zero)
{
    for (int32_t u = 0; u < s->kh; u++, to += s->kw * s->c, r += s->dh) {
        window_row(to, r < 0 || r >= s->h ? NULL : image + r * s->w * s->c, q, s, zero);
    }
}

/* where in the outputs of all images a tile starts */
typedef struct {
    const int8_t *image;
    int32_t i, j;
} cursor;

static void next_row(cursor *at, const conv2d_shape *s)
{
    at->j = 0;
    if (++at->i == s->oh) {
        at->i = 0;
        at->image += s->h * s->w * s->c;
    }
}

/* are all taps of `count` windows from i,j on inside? then they lie side by side in the image */
static int whole_windows(const cursor *at, int32_t count, const conv2d_shape *s)
{
    const int32_t r = at->i * s->sh - s->pt, q = at->j * s->sw - s->pl;
    return s->dw == 1 && r >= 0 && r + (s->kh - 1) * s->dh < s->h && q >= 0 && at->j + count <= s->ow &&
           q + (count - 1) * s->sw + s->kw <= s->w;
}

/* a block of windows, one by one; those that are not there are what lay there before */
static void copied_windows(int8_t *side, cursor *at, int32_t count, const conv2d_shape *s, int32_t zero)
{
    const int32_t n = s->kw * s->c, row = s->w * s->c;
    for (; count > 0; count--, side += s->kh * n) {
        const int32_t r = at->i * s->sh - s->pt, q = at->j * s->sw - s->pl;
        if (whole_windows(at, 1, s)) {
            copy_rows(side, at->image + r * row + q * s->c, n, s->kh, s->dh * row);
        } else {
            edge_window(side, at->image, r, q, s, zero);
        }
        if (++at->j == s->ow) {
            next_row(at, s);
        }
    }
}

/* the windows of the next `count` pixels */
static void widen_windows(int16_t *to, cursor *at, int32_t count, const conv2d_shape *s, int32_t zero, int8_t *side)
{
    const int32_t n = s->kw * s->c, k = s->kh * n, row = s->w * s->c, length = pairs_length(k);
    const pairs_window copied = {side, k, n, s->kh, n};
    pairs_window there = {NULL, s->sw * s->c, s->dh * row, s->kh, n};
    for (; count > 0; count -= PAIRS_PIXELS, to += PAIRS_PIXELS * length) {
        if (count >= PAIRS_PIXELS && whole_windows(at, PAIRS_PIXELS, s)) {
            there.x = at->image + (at->i * s->sh - s->pt) * row + (at->j * s->sw - s->pl) * s->c;
            pairs_window4(to, &there, zero);
            at->j += PAIRS_PIXELS;
            if (at->j == s->ow) {
                next_row(at, s);
            }
        } else {
            copied_windows(side, at, count < PAIRS_PIXELS ? count : PAIRS_PIXELS, s, zero);
            pairs_window4(to, &copied, zero);
        }
    }
}

/* the same where a window is a pixel */
static void widen_pixels(int16_t *to, const int8_t *x, int32_t count, int32_t k, int32_t zero)
{
    const int32_t length = pairs_length(k);
    pairs_window w = {x, k, 0, 1, k};
    for (; count >= PAIRS_PIXELS; count -= PAIRS_PIXELS, w.x += PAIRS_PIXELS * k, to += PAIRS_PIXELS * length) {
        pairs_window4(to, &w, zero);
    }
    if (count) {
        pairs_few(to, &w, count, zero);
    }
}

/* pixels of the tile from the first on whose sums are stored apart from making them: any rounding, clamp and mask */
static void by_channel(pairs_task *t, channel_place to, int32_t count, int32_t outs, int32_t length, const requant *q,
                       int32_t *sums)
{
    t->y = (int8_t *)sums;
    for (int32_t i = 0; i < count; i += PAIRS_SUMS) {
        const int32_t some = count - i < PAIRS_SUMS ? count - i : PAIRS_SUMS;
        t->x_end = t->x + (some + PAIRS_PIXELS - 1) / PAIRS_PIXELS * PAIRS_PIXELS * length;
        pairs_sums(t);
        t->x = t->x_end;
        for (int32_t o = 0; o < outs; o++) {
            const channel_place one = {to.y + o, to.mask, to.y_row, to.mask_row, to.channel + o};
            requant_channel_s8(&one, sums + o * PAIRS_SUMS, some, q);
        }
        to.y += some * to.y_row;
        to.mask = to.mask ? to.mask + some * to.mask_row : NULL;
    }
}

/* Two outputs' weights and bias, and how they are requantised; gives whether that has a quick way. */
static int two_outputs(pairs_task *t, const pairs_window *rows, const int32_t *b, int32_t o, int32_t last,
                       const requant *q)
{
    const int32_t start = b ? b[o] : 0, next = b ? b[last] : 0;
    pairs_window2((int16_t *)t->w, rows);
    UNROLL
    for (int32_t i = 0; i < PAIRS_BLOCK; i += PAIRS_OUTPUTS) {
        t->start[i] = start;
        t->start[i + 1] = next;
    }
    return last > o && quick_of(&t->q[0], o, q) && quick_of(&t->q[1], last, q);
}

/* blocks of pixels whose outputs are requantised quickly */
static void quick_outputs(pairs_task *t, const channel_place *to)
{
    t->y = to->y;
    if (!to->mask) {
        pairs_quick(t);
        return;
    }
    t->mask = to->mask + (to->channel >> 3);
    t->bit = 1 << (to->channel & 7);
    pairs_masked(t);
}

/* a tile whose windows are there */
static void all_outputs(pairs_task *t, channel_place to, const int8_t *w, const int32_t *b, int32_t count,
                        const conv2d_shape *s, const requant *q, int32_t *sums)
{
    const int32_t n = s->kw * s->c, k = s->kh * n, length = pairs_length(k);
    const int32_t whole = q->lo == -128 && q->hi == 127 ? count / PAIRS_PIXELS * PAIRS_PIXELS : 0;
    const int16_t *windows = t->x;
    pairs_window rows = {w, k, n, s->kh, n};
    for (; to.channel < s->o; to.channel += PAIRS_OUTPUTS, to.y += PAIRS_OUTPUTS, rows.x += PAIRS_OUTPUTS * k) {
        const int32_t last = to.channel + 1 < s->o ? to.channel + 1 : to.channel;
        rows.row = (last - to.channel) * k;
        const int32_t done = two_outputs(t, &rows, b, to.channel, last, q) ? whole : 0;
        t->x = windows;
        t->x_end = windows + done * length;
        if (done) {
            quick_outputs(t, &to);
        }
        if (done < count) {
            channel_place rest = to;
            rest.y += done * to.y_row;
            rest.mask = to.mask ? to.mask + done * to.mask_row : NULL;
            t->x = t->x_end;
            by_channel(t, rest, count - done, last - to.channel + 1, length, q, sums);
        }
    }
    t->x = windows;
}

void conv2d_pairs_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t tile,
                     const conv2d_shape *s, const requant *q, void *scratch)
{
    const int32_t length = pairs_length(s->kh * s->kw * s->c), pixels = s->n * s->oh * s->ow;
    int32_t *sums = (int32_t *)scratch;
    int16_t *windows = (int16_t *)(sums + PAIRS_OUTPUTS * PAIRS_SUMS), *weights = windows + tile * length;
    pairs_task t = {.w = weights, .w_end = weights + PAIRS_OUTPUTS * length, .y_row = s->o, .y_3 = 3 * s->o,
                          .mask_row = (s->o + 7) / 8, .x = windows, .zero = q->x_zero};
    channel_place to = {y, mask, s->o, (s->o + 7) / 8, 0};
    cursor at = {x, 0, 0};
    clear_mask(mask, pixels * to.mask_row);
    for (int32_t p = 0; p < pixels; p += tile) {
        const int32_t count = pixels - p < tile ? pixels - p : tile;
        if (is_pointwise(s)) {
            widen_pixels(windows, x + p * s->c, count, s->c, q->x_zero);
        } else {
            widen_windows(windows, &at, count, s, q->x_zero, (int8_t *)t.w_end);
        }
        all_outputs(&t, to, w, b, count, s, q, sums);
        to.y += count * to.y_row;
        to.mask = mask ? to.mask + count * to.mask_row : NULL;
    }
}
