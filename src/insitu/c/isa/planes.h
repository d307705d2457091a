/* Rows of one channel's pixels as 16-bit numbers (planes), and windows that move along them: depthwise convolutions.
 *
 *   planes_widen     rows of up to four channels of NHWC bytes become rows of as many planes
 *   plane_weights    some channels' taps in the order of plane_outputs
 *   plane_prepare    the same for the taps of each line of outputs
 *   plane_outputs    lines of outputs of some channels: sums, requantised and stored
 */
#ifndef INSITU_ISA_PLANES_H
#define INSITU_ISA_PLANES_H

#include <stddef.h>
#include <stdint.h>

#include "isa/inline.h"
#include "isa/machine.h"
#include "kernels.h"
#include "numbers/requant.h"

enum { PLANES = 4 };

/* A line of outputs: its tap rows first..first+rows-1 are inside, and the first of them starts at number x of a plane.
 * */
typedef struct {
    int32_t first, rows, x, spare;
} plane_line;

/* Lines of outputs of one channel: sum over u < rows, v < kw of plane[x + u x_row + j step + v] w[first + u,v] + start
 * for j < count. Rows are even and start at a word; there is room for reading, and writing sums, on to the next multiple
 * of four outputs. */
typedef struct {
    const int16_t *plane, *w;
    const plane_line *lines, *lines_end;
    int32_t x_row, w_row, kh, kw, step, count, start;
} plane_task;

/* Some rows of n pixels: how many numbers, and bytes, from row to row. */
typedef struct {
    int32_t rows, n, y_row, x_row;
} plane_rows;

/* y[p plane + r y_row + i] = x[r x_row + i c + p] - zero for p < channels (at most four), r < rows, i < n */
static inline void scalar_planes_widen(int16_t *y, int32_t plane, const int8_t *x, int32_t c, int32_t channels,
                                       int32_t zero, const plane_rows *t)
{
    for (int32_t r = 0; r < t->rows; r++, y += t->y_row, x += t->x_row) {
        const int8_t *from = x;
        for (int32_t i = 0; i < t->n; i++, from += c) {
            for (int32_t p = 0; p < channels; p++) {
                y[p * plane + i] = (int16_t)(from[p] - zero);
            }
        }
    }
}

/* w[u,v] of some channels (at most four) of w[kh,kw,c], each `size` numbers after the last */
static inline void scalar_plane_weights(int16_t *to, int32_t size, const int8_t *w, int32_t c, int32_t channels,
                                        int32_t kh, int32_t kw)
{
    for (int32_t p = 0; p < channels; p++) {
        for (int32_t i = 0; i < kh * kw; i++) {
            to[p * size + i] = w[i * c + p];
        }
    }
}

/* the distance between their rows */
static inline int32_t scalar_plane_row(int32_t kh, int32_t kw)
{
    (void)kh;
    return kw;
}

/* lines may be rewritten for a machine's own code */
static inline void scalar_plane_prepare(plane_line *lines, const plane_task *t)
{
    (void)lines;
    (void)t;
}

/* one window, `skip` numbers from the end of one of its rows to the next; the weights of its rows are contiguous */
APART int32_t plane_window(uint32_t sum, const int16_t *x, int32_t skip, const int16_t *w, int32_t rows, int32_t kw)
{
    for (; rows > 0; rows--, x += skip) {
        ROLLED
        for (const int16_t *end = w + kw; w < end;) {
            sum += (uint32_t)(*x++ * *w++);
        }
    }
    return (int32_t)sum;
}

static inline void scalar_plane_sums(int32_t *acc, const plane_task *t)
{
    const int32_t skip = t->x_row - t->kw;
    for (const plane_line *line = t->lines; line < t->lines_end; line++) {
        const int16_t *x = t->plane + line->x, *w = t->w + line->first * t->kw;
        for (int32_t j = 0; j < t->count; j++, x += t->step) {
            *acc++ = plane_window((uint32_t)t->start, x, skip, w, line->rows, t->kw);
        }
    }
}

/* Some channels, one after the other: how many, numbers from plane to plane and from weights to weights, and their bias
 * (or null). */
typedef struct {
    int32_t count, plane, weights;
    const int32_t *b;
} plane_channels;

typedef void plane_maker(int32_t *acc, const plane_task *t);

/* the first of them is that of the task and at `to`; `acc` has room for the sums of one */
ALWAYS_INLINE void plane_outputs_by(plane_maker *sums, const plane_task *t, const channel_place *to,
                                    const plane_channels *c, const requant *q, int32_t *acc)
{
    channel_place at = *to;
    plane_task one = *t;
    for (int32_t p = 0; p < c->count; p++, at.channel++, at.y++, one.plane += c->plane, one.w += c->weights) {
        one.start = c->b ? c->b[p] : 0;
        sums(acc, &one);
        requant_channel_s8(&at, acc, (int32_t)(t->lines_end - t->lines) * t->count, q);
    }
}

APART void scalar_plane_outputs(const plane_task *t, const channel_place *to, const plane_channels *c, const requant *q,
                                int32_t *acc)
{
    plane_outputs_by(scalar_plane_sums, t, to, c, q, acc);
}

#if INSITU_HELIUM
#include "isa/helium/planes.h"
#elif INSITU_DSP
#include "isa/dsp/planes.h"
#else
#define planes_widen scalar_planes_widen
#define plane_weights scalar_plane_weights
#define plane_row scalar_plane_row
#define plane_prepare scalar_plane_prepare
#define plane_outputs scalar_plane_outputs
#endif

#endif
