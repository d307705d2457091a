/* Depthwise convolutions as lists of taps, a row of pixels at a time. */
#ifndef INSITU_TAPS_H
#define INSITU_TAPS_H

#include <stdint.h>

#include "kernels/shapes.h"

/* a tap reads channel o of pixel p step + at of a row of inputs, if that is inside 0..width-1 */
typedef struct {
    const void *x; /* the row */
    void *w;       /* its weights or their gradient, one per channel */
    int32_t at;
} tap;

/* `rows` rows of outputs, x_next and y_next floats after one another: all have the same taps, and only floats have more
 * than one row */
typedef struct {
    int32_t pixels, c, step, width, y_step, rows, x_next, y_next;
} tap_row;

enum { TAPS_FLOATS = 12288 }; /* inputs that stay in the first-level cache while all their channels are used */

/* how many of `rows` rows, of `floats` inputs each, are computed at once: the rest is not in the cache long enough */
static inline int32_t rows_at_once(int32_t rows, int32_t floats)
{
    const int32_t most = TAPS_FLOATS > floats ? TAPS_FLOATS / floats : 1;
    return rows < 1 ? 1 : rows < most ? rows : most;
}

/* how many rows of outputs from i on have all their taps inside; 1 if row i has not */
static inline int32_t rows_inside(const conv2d_shape *s, int32_t i)
{
    const int32_t room = s->h - 1 - (s->kh - 1) * s->dh + s->pt, last = room < 0 ? 0 : room / s->sh + 1;
    return i * s->sh < s->pt ? 1 : rows_at_once((last < s->oh ? last : s->oh) - i, s->sh * s->w * s->c);
}

/* how many times sh rows of inputs from r on lie under all taps, as far as strides let them; 0 if not all of the first sh
 * do */
static inline int32_t rows_with_taps(const conv2d_shape *s, int32_t r)
{
    const int32_t last = (s->oh - 1) * s->sh - s->pt + 1, room = (last < s->h ? last : s->h) - r;
    const int32_t inside = r + s->pt >= (s->kh - 1) * s->dh && room >= s->sh;
    return inside ? rows_at_once(room / s->sh, s->ow * s->o) : 0;
}

/* the taps of output row i of a depthwise convolution that are on rows of x; x_size and w_size are bytes per element */
static inline int32_t taps_of_row(tap *taps, const conv2d_shape *s, int32_t i, const void *x, const void *w,
                                  int32_t x_size, int32_t w_size)
{
    int32_t count = 0;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t r = i * s->sh + u * s->dh - s->pt;
        for (int32_t v = 0; v < s->kw && r >= 0 && r < s->h; v++, count++) {
            taps[count].x = (const char *)x + r * s->w * s->c * x_size;
            taps[count].w = (char *)w + (u * s->kw + v) * s->o * w_size;
            taps[count].at = v * s->dw - s->pl;
        }
    }
    return count;
}

/* the taps that lie on the inputs q, q + sw, .. of input row r, in the order of the outputs i, then j, they belong to:
 * pixel p reads output p + at of its row of g */
static inline int32_t taps_on_row(tap *taps, const conv2d_shape *s, int32_t r, int32_t q, const void *g, const void *w,
                                  int32_t w_size)
{
    int32_t count = 0;
    for (int32_t u = s->kh - 1; u >= 0; u--) {
        const int32_t i = r + s->pt - u * s->dh;
        if (i < 0 || i % s->sh != 0 || i / s->sh >= s->oh) {
            continue;
        }
        for (int32_t v = s->kw - 1; v >= 0; v--) {
            const int32_t j = q + s->pl - v * s->dw;
            if (j % s->sw == 0) {
                taps[count].x = (const float *)g + i / s->sh * s->ow * s->o;
                taps[count].w = (char *)w + (u * s->kw + v) * s->o * w_size;
                taps[count++].at = j / s->sw;
            }
        }
    }
    return count;
}

#endif
