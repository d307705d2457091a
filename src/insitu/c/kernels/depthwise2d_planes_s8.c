/* acc[n,i,j,o] = b[o] + sum over u,v of w[u,v,o] (x[n, i*sh + u - pt, j*sw + v - pl, o] - x_zero)
 * y = requantised acc, mask (if not null) where it was not clamped, with as many outputs as inputs; w[kh,kw,o] as
 * declared, at most 8 x 8 taps, no dilation; b may be null. Padding holds x_zero.
 * Four channels of `band` rows of outputs at a time: the rows of inputs they need are laid out channel by channel in 16
 * bits (see isa/planes.h), with zeros to the left and right; rows above and below are left out.
 * Scratch: four planes of (band - 1) sh + kh rows of `width` numbers, an even number that is enough for a multiple of
 * four outputs, 2 bytes each. Not in place.
 */
#include "isa/planes.h"
#include "kernels.h"
#include "spans.h"

/* the planes of some channels, and which rows of inputs they hold */
typedef struct {
    int16_t *planes;
    int32_t width, plane, first, last; /* numbers in a row and in a plane; rows first..last-1 */
} band_rows;

static void widen_band(const band_rows *t, const int8_t *x, int32_t channels, const conv2d_shape *s, int32_t zero)
{
    const int32_t room = t->width - s->pl, n = room < s->w ? room : s->w;
    for (int32_t r = t->first; r < t->last; r++) {
        int16_t *to = t->planes + (r - t->first) * t->width + s->pl;
        planes_widen(to, t->plane, x + r * s->w * s->c, s->c, channels, zero, n);
    }
}

/* rows i..end-1 of one channel's outputs */
static void channel_rows(const band_rows *t, const int16_t *plane, plane_task task, channel_store to, int32_t i,
                         int32_t end, const conv2d_shape *s)
{
    const int16_t *w = task.w;
    for (; i < end; i++) {
        const int32_t r = i * s->sh - s->pt;
        const tap_range taps = taps_inside(r, s->kh, 1, s->h);
        task.kh = taps.last - taps.first;
        task.w = w + taps.first * task.w_row;
        task.x = plane + (r + taps.first - t->first) * t->width;
        plane_row(&task, &to);
        to.y += s->ow * s->o;
        to.mask = to.mask ? to.mask + s->ow * to.mask_row : NULL;
    }
}

static void clear_s16(int16_t *to, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = 0;
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
    int16_t taps[PLANE_WEIGHTS];
    band_rows t = {(int16_t *)scratch, width, ((band - 1) * s->sh + s->kh) * width, 0, 0};
    clear_s16(t.planes, PLANES * t.plane);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i += band) {
            const int32_t end = i + band < s->oh ? i + band : s->oh, at = (n * s->oh + i) * s->ow;
            rows_under(&t, i, end, s);
            for (int32_t o = 0; o < s->o; o += PLANES) {
                const int32_t channels = s->o - o < PLANES ? s->o - o : PLANES;
                widen_band(&t, x + o, channels, s, q->x_zero);
                for (int32_t p = 0; p < channels; p++) {
                    plane_task task = {NULL, taps, width, 0, 0, s->kw, s->sw, s->ow, b ? b[o + p] : 0};
                    task.w_row = plane_weights(taps, w + o + p, s->o, s->kh, s->kw);
                    channel_rows(&t, t.planes + p * t.plane, task,
                                 channel_store_of(y + at * s->o, mask_row(mask, at, s->o), s->o, o + p, q), i, end, s);
                }
            }
        }
    }
}
