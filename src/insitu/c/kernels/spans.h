/* A row of windows in pieces: neighbouring outputs whose windows have the same taps inside the row of inputs. */
#ifndef INSITU_SPANS_H
#define INSITU_SPANS_H

#include "kernels/shapes.h"

/* outputs j..j+count-1 of a row have the taps tap..tap+taps-1 of a kernel row inside */
typedef struct {
    int32_t j, count, tap, taps;
} span;

/* the span that starts at output j: all whole windows together, the others one by one */
static inline span span_at(const conv2d_shape *s, int32_t j)
{
    const int32_t start = j * s->sw - s->pl;
    const tap_range inside = taps_inside(start, s->kw, s->dw, s->w);
    span found = {j, 1, inside.first, inside.last - inside.first};
    if (found.taps == s->kw) {
        const int32_t room = (s->w - 1 - (s->kw - 1) * s->dw - start) / s->sw + 1;
        found.count = room < s->ow - j ? room : s->ow - j;
    }
    return found;
}

/* the outputs of a row that have tap v inside */
static inline span span_of(const conv2d_shape *s, int32_t v)
{
    const int32_t at = v * s->dw - s->pl;
    const int32_t first = at < 0 ? (-at + s->sw - 1) / s->sw : 0;
    const int32_t last = s->w > at ? (s->w - 1 - at) / s->sw + 1 : 0;
    const int32_t end = last < s->ow ? last : s->ow;
    const span found = {first, end > first ? end - first : 0, v, 1};
    return found;
}

/* the row of inputs under tap u of output row i, or -1 */
static inline int32_t row_under(const conv2d_shape *s, int32_t i, int32_t u)
{
    const int32_t r = i * s->sh + u * s->dh - s->pt;
    return r >= 0 && r < s->h ? r : -1;
}

/* a 1x1 kernel with stride one: every input has one output */
static inline int is_pointwise(const conv2d_shape *s)
{
    return s->kh == 1 && s->kw == 1 && s->sh == 1 && s->sw == 1 && s->oh == s->h && s->ow == s->w;
}

/* such a kernel sees all pixels of all images as one row */
static inline conv2d_shape as_one_row(const conv2d_shape *s)
{
    conv2d_shape flat = *s;
    if (is_pointwise(s)) {
        flat.w = flat.ow = s->n * s->h * s->w;
        flat.n = flat.h = flat.oh = 1;
    }
    return flat;
}

#endif
