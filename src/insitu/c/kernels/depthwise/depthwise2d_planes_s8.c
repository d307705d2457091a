/* acc[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] (x[n, i*sh + u - pt, j*sw + v - pl, o] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped, with as many outputs as inputs; w[kh,kw,o], no
 * dilation; b may be null. The padding is x_zero.
 * Four channels of `band` rows of outputs at a time: the rows of inputs they need are laid out channel by channel in 16
 * bits (see isa/planes.h), with zeros to the left and right; rows above and below are left out.
 * Scratch: `band` lines, 16 bytes each; band ow + 4 sums, 4 bytes each; 8 kh kw weights, 2 bytes each; four planes of
 * (band - 1) sh + kh rows of `width` numbers, an even number that is enough for a multiple of four outputs, 2 bytes
 * each. In place: y may be x if it has its shape and `band` is all rows.
 */
#include "isa/planes.h"
#include "kernels.h"
#include "kernels/spans.h"

/* the planes of some channels, and the rows of inputs in them */
typedef struct {
    int16_t *planes;
    int32_t width, plane, first, last; /* numbers in a row and in a plane; rows first..last-1 */
} band_rows;

/* how many numbers of a row of inputs fit: all that are needed */
static int32_t row_numbers(const band_rows *t, const conv2d_shape *s)
{
    return t->width - s->pl < s->w ? t->width - s->pl : s->w;
}

APART void widen_band(const band_rows *t, const int8_t *x, int32_t channels, const conv2d_shape *s, int32_t zero)
{
    const plane_rows rows = {t->last - t->first, row_numbers(t, s), t->width, s->w * s->c};
    planes_widen(t->planes + s->pl, t->plane, x + t->first * rows.x_row, s->c, channels, zero, &rows);
}

/* the inputs of lines i..end-1 of outputs */
static void lines_of(plane_line *lines, const band_rows *t, int32_t i, int32_t end, const conv2d_shape *s)
{
    for (; i < end; i++, lines++) {
        const int32_t r = i * s->sh - s->pt;
        const tap_range taps = taps_inside(r, s->kh, 1, s->h);
        lines->first = taps.first;
        lines->rows = taps.last - taps.first;
        lines->x = (r + taps.first - t->first) * t->width;
    }
}

/* zeros to the left and right of the n numbers of each of these rows */
static void clear_sides(int16_t *to, int32_t rows, int32_t width, int32_t left, int32_t n)
{
    for (int32_t i = 0; i < left; i++) {
        to[i] = 0;
    }
    for (to += left + n; rows > 0; rows--, to += width) {
        const int32_t gap = width - n - (rows > 1 ? 0 : left);
        for (int32_t i = 0; i < gap; i++) {
            to[i] = 0;
        }
    }
}

/* the rows of inputs that rows i..end-1 of outputs need */
static void rows_under(band_rows *t, int32_t i, int32_t end, const conv2d_shape *s)
{
    const int32_t first = i * s->sh - s->pt, last = (end - 1) * s->sh - s->pt + s->kh;
    t->first = first > 0 ? first : 0;
    t->last = last < s->h ? last : s->h;
}

void depthwise2d_planes_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t band,
                           int32_t width, const conv2d_shape *s, const requant *q, void *scratch)
{
    const int32_t size = 2 * s->kh * s->kw;
    plane_line *lines = (plane_line *)scratch;
    int32_t *acc = (int32_t *)(lines + band);
    int16_t *taps = (int16_t *)(acc + band * s->ow + PLANES);
    band_rows t = {taps + PLANES * size, width, ((band - 1) * s->sh + s->kh) * width, 0, 0};
    plane_task task = {t.planes, taps, lines, NULL, width, plane_row(s->kh, s->kw), s->kh, s->kw, s->sw, s->ow, 0};
    clear_sides(t.planes, PLANES * t.plane / width, width, s->pl, row_numbers(&t, s));
    clear_mask(mask, s->n * s->oh * s->ow * ((s->o + 7) / 8));
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i += band) {
            const int32_t end = i + band < s->oh ? i + band : s->oh, at = (n * s->oh + i) * s->ow;
            channel_place to = {y + at * s->o, mask_row(mask, at, s->o), s->o, (s->o + 7) / 8, 0};
            rows_under(&t, i, end, s);
            lines_of(lines, &t, i, end, s);
            task.lines_end = lines + (end - i);
            plane_prepare(lines, &task);
            for (; to.channel < s->o; to.channel += PLANES, to.y += PLANES) {
                const int32_t left = s->o - to.channel;
                const plane_channels some = {left < PLANES ? left : PLANES, t.plane, size, b ? b + to.channel : NULL};
                widen_band(&t, x + to.channel, some.count, s, q->x_zero);
                plane_weights(taps, size, w + to.channel, s->o, some.count, s->kh, s->kw);
                plane_outputs(&task, &to, &some, q, acc);
            }
        }
    }
}
