/* acc[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] (x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped; one group. Weights are w[o,kh,kw,c], used in that
 * layout; b may be null. The padding is x_zero.
 * `outputs` of the shape's o are computed: y, mask, w, b and q are those of the first of them. If these are not all,
 * the first is a multiple of eight, and the bits of the mask are zero beforehand. The windows of `tile` pixels (a
 * multiple of four) are widened to 16 bits once, then meet two outputs' weights at a time: see isa/pairs.h. Scratch,
 * with k = kh kw c rounded up to a multiple of four: 512 bytes (sums), 2 tile k (windows), 4 k (weights), 4 k (four
 * windows in the layout of x; none for 1x1 kernels with stride one). Not in place.
 */
#include "isa/copy.h"
#include "isa/pairs.h"
#include "kernels.h"
#include "kernels/spans.h"

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

/* a window that is partly outside, its first tap on r,q */
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

/* How many windows from i,j on have all their taps inside and are side by side in the image? At most `count`. */
static int32_t whole_windows(const cursor *at, int32_t count, const conv2d_shape *s)
{
    const int32_t r = at->i * s->sh - s->pt, q = at->j * s->sw - s->pl, room = s->w - s->kw - q;
    if (s->dw != 1 || r < 0 || r + (s->kh - 1) * s->dh >= s->h || q < 0 || room < 0) {
        return 0;
    }
    const int32_t inside = room / s->sw + 1, there = s->ow - at->j < inside ? s->ow - at->j : inside;
    return count < there ? count : there;
}

/* `count` outputs on, in the same row of them */
static void go_on(cursor *at, int32_t count, const conv2d_shape *s)
{
    at->j += count;
    if (at->j == s->ow) {
        at->j = 0;
        if (++at->i == s->oh) {
            at->i = 0;
            at->image += s->h * s->w * s->c;
        }
    }
}

/* a block of windows, one by one; missing ones keep the old contents */
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
        go_on(at, 1, s);
    }
}

/* the windows of the next `count` pixels */
APART void widen_windows(int16_t *to, cursor *at, int32_t count, const conv2d_shape *s, int32_t zero, int8_t *side)
{
    const int32_t n = s->kw * s->c, k = s->kh * n, row = s->w * s->c;
    const pairs_window copied = {side, k, n, s->kh, n};
    pairs_window there = {NULL, s->sw * s->c, s->dh * row, s->kh, n};
    while (count > 0) {
        const int32_t blocks = whole_windows(at, count, s) / PAIRS_PIXELS, some = (blocks ? blocks : 1) * PAIRS_PIXELS;
        if (blocks) {
            there.x = at->image + (at->i * s->sh - s->pt) * row + (at->j * s->sw - s->pl) * s->c;
            pairs_window4(to, &there, blocks, zero);
            go_on(at, some, s);
        } else {
            copied_windows(side, at, count < some ? count : some, s, zero);
            pairs_window4(to, &copied, 1, zero);
        }
        to += some * pairs_length(k);
        count -= some;
    }
}

/* the same if a window is a pixel */
APART void widen_pixels(int16_t *to, const int8_t *x, int32_t count, int32_t k, int32_t zero)
{
    const int32_t blocks = count / PAIRS_PIXELS, whole = blocks * PAIRS_PIXELS;
    pairs_window w = {x, k, 0, 1, k};
    pairs_window4(to, &w, blocks, zero);
    if (whole < count) {
        w.x += whole * k;
        pairs_few(to + whole * pairs_length(k), &w, count - whole, zero);
    }
}

/* a tile: its first pixel's outputs, and how many pixels */
typedef struct {
    channel_place to;
    int32_t count, length, outputs;
    int32_t *sums;
} tile_part;

/* Output o, and the next if there is one, of the pixels from `done` on: first their sums, then stored with any
 * rounding, clamp and mask. */
APART void by_channel(pairs_task *t, const tile_part *part, int32_t o, int32_t done, const requant *q)
{
    const int32_t end = o + PAIRS_OUTPUTS < part->outputs ? o + PAIRS_OUTPUTS : part->outputs;
    const int16_t *x = t->x, *x_end = t->x_end;
    t->y = (int8_t *)part->sums;
    t->x += done * part->length;
    for (int32_t some; done < part->count; done += some) {
        some = part->count - done < PAIRS_SUMS ? part->count - done : PAIRS_SUMS;
        t->x_end = t->x + (some + PAIRS_PIXELS - 1) / PAIRS_PIXELS * PAIRS_PIXELS * part->length;
        pairs_store(t, PAIRS_KEPT);
        t->x = t->x_end;
        for (int32_t c = o; c < end; c++) {
            const channel_place one = {part->to.y + done * part->to.y_row + c,
                                       mask_row(part->to.mask, done, 8 * part->to.mask_row), part->to.y_row,
                                       part->to.mask_row, c};
            requant_channel_s8(&one, part->sums + (c - o) * PAIRS_SUMS, some, q);
        }
    }
    t->x = x;
    t->x_end = x_end;
}

/* one or two outputs' weights and bias */
static void two_outputs(pairs_task *t, const pairs_window *rows, const int32_t *b, int32_t next)
{
    const int32_t start = b ? b[0] : 0, other = b ? b[next] : 0;
    pairs_window2((int16_t *)t->w, rows);
    UNROLL
    for (int32_t i = 0; i < PAIRS_BLOCK; i += PAIRS_OUTPUTS) {
        t->start[i] = start;
        t->start[i + 1] = other;
    }
}

/* is there a quick way for outputs o and o + 1? if so, it is put in the task */
static int two_quick(pairs_task *t, int32_t o, const requant *q)
{
    const int32_t *m = q->m + o * q->step, twice = 2 * q->y_zero + 1;
    const int8_t *shift = q->shift + o * q->step;
    return quick_from(&t->q[0], m[0], shift[0], twice) && quick_from(&t->q[1], m[q->step], shift[q->step], twice);
}

/* where in a tile output o is stored */
static void task_at(pairs_task *t, const tile_part *part, int32_t o)
{
    t->y = part->to.y + o;
    if (part->to.mask) {
        t->mask = part->to.mask + (o >> 3);
        t->bit = 1 << (o & 7);
    }
}

/* As many outputs from o on, two by two, as a machine's own code handles, all pixels in whole blocks; returns the next.
 * */
APART int32_t many_outputs(pairs_task *t, const tile_part *part, int32_t o, const pairs_window *rows, const int32_t *b,
                            const requant *q)
{
    const int32_t k = rows->kh * rows->n, left = (part->outputs - o) / PAIRS_OUTPUTS;
    const pairs_source source = {rows->x + o * k, b + o, q->m + o, q->shift + o, 2 * q->y_zero + 1,
                                 k, rows->n % 4 ? 0 : k / 4, left};
    task_at(t, part, o);
    return o + PAIRS_OUTPUTS * (left - pairs_outputs(t, &source, part->to.mask ? PAIRS_MASKED : PAIRS_PLAIN));
}

/* Output o and the next, if there is one: the first `whole` pixels, which are whole blocks, if both are requantised
 * quickly. Returns how many pixels are done. */
APART int32_t few_outputs(pairs_task *t, const tile_part *part, int32_t o, const pairs_window *all, const int32_t *b,
                          const requant *q)
{
    const int32_t k = all->kh * all->n, both = o + 1 < part->outputs;
    const pairs_window rows = {all->x + o * k, both ? k : 0, all->n, all->kh, all->n};
    two_outputs(t, &rows, b ? b + o : NULL, both);
    if (t->x == t->x_end || !both || !two_quick(t, o, q)) {
        return 0;
    }
    task_at(t, part, o);
    pairs_store(t, part->to.mask ? PAIRS_MASKED : PAIRS_PLAIN);
    return part->count / PAIRS_PIXELS * PAIRS_PIXELS;
}

/* a tile whose windows are ready */
static void all_outputs(pairs_task *t, const tile_part *part, const pairs_window *rows, const int32_t *b,
                        const requant *q)
{
    const int32_t whole = requant_is_quick(q) ? part->count / PAIRS_PIXELS * PAIRS_PIXELS : 0;
    const int32_t many = b && q->step && whole == part->count;
    t->x_end = t->x + whole * part->length;
    for (int32_t o = 0; o < part->outputs; o += PAIRS_OUTPUTS) {
        o = many ? many_outputs(t, part, o, rows, b, q) : o;
        const int32_t done = o < part->outputs ? few_outputs(t, part, o, rows, b, q) : part->count;
        if (done < part->count) {
            by_channel(t, part, o, done, q);
        }
    }
}

void conv2d_pairs_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t tile,
                     int32_t outputs, const conv2d_shape *s, const requant *q, void *scratch)
{
    const int32_t length = pairs_length(s->kh * s->kw * s->c), pixels = s->n * s->oh * s->ow;
    int32_t *sums = (int32_t *)scratch;
    int16_t *windows = (int16_t *)(sums + PAIRS_OUTPUTS * PAIRS_SUMS), *weights = windows + tile * length;
    pairs_task t = {.w = weights, .w_end = weights + PAIRS_OUTPUTS * length, .y_row = s->o, .y_3 = 3 * s->o,
                          .mask_row = (s->o + 7) / 8, .x = windows, .zero = q->x_zero};
    tile_part part = {{y, mask, s->o, (s->o + 7) / 8, 0}, tile, length, outputs, sums};
    const pairs_window rows = {w, 0, s->kw * s->c, s->kh, s->kw * s->c};
    cursor at = {x, 0, 0};
    pairs_ready(&t);
    clear_mask(outputs == s->o ? mask : NULL, pixels * part.to.mask_row);
    for (int32_t p = 0; p < pixels; p += tile) {
        part.count = pixels - p < tile ? pixels - p : tile;
        if (is_pointwise(s)) {
            widen_pixels(windows, x + p * s->c, part.count, s->c, q->x_zero);
        } else {
            widen_windows(windows, &at, part.count, s, q->x_zero, (int8_t *)t.w_end);
        }
        all_outputs(&t, &part, &rows, b, q);
        part.to.y += part.count * part.to.y_row;
        part.to.mask = mask ? part.to.mask + part.count * part.to.mask_row : NULL;
    }
}
