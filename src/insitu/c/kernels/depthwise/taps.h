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

enum { TAPS_FLOATS = 4096 }; /* inputs that stay in the first-level cache while all their channels are used */

/* how many rows of outputs from i on have all their taps inside; 1 if row i has not */
static inline int32_t rows_inside(const conv2d_shape *s, int32_t i)
{
    const int32_t reach = (s->kh - 1) * s->dh, row = s->sh * s->w * s->c;
    const int32_t most = TAPS_FLOATS > row ? TAPS_FLOATS / row : 1;
    int32_t count = 1;
    while (count < most && i + count < s->oh && i * s->sh >= s->pt && (i + count) * s->sh - s->pt + reach < s->h) {
        count++;
    }
    return count;
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
