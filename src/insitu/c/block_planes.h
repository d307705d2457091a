/* The input gradient of a depthwise convolution by windows that move along planes: the sums of block_depthwise.h in
 * another order, so the same integers. See isa/planes.h.
 *
 * With the kernel turned round, dx is a convolution of g. A stride of two puts zeros between the columns of g; of the
 * rows of the kernel, even and odd rows of dx have every second one.
 */
#ifndef INSITU_BLOCK_PLANES_H
#define INSITU_BLOCK_PLANES_H

#include "block_conv.h"
#include "block_runs.h"
#include "isa/planes.h"

/* Planes of a group: rows first..last-1 of g, `width` numbers each, `plane` numbers a channel. */
typedef struct {
    int16_t *planes;
    int32_t width, plane, first, last;
} block_band;

enum { BLOCK_LINES = 16 }; /* rows of dx at a time, at most */

static inline void block_clear(int16_t *to, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = 0;
    }
}

/* The rows of the turned kernel that lie on rows of g for row r of dx: `skip` of them come before (of a stride of two,
 * the other half, and what lies above g), the first is on row `row` of g. */
typedef struct {
    int32_t skip, rows, row;
} block_taps;

static inline block_taps block_taps_of(int32_t r, const conv2d_shape *s)
{
    const int32_t low = r + s->pt - (s->kh - 1), odd = s->sh == 2 ? low & 1 : 0;
    const int32_t begin = (low + odd) >> (s->sh == 2), all = (s->kh - odd + s->sh - 1) / s->sh;
    const int32_t first = begin < 0 ? -begin : 0, end = s->oh - begin < all ? s->oh - begin : all;
    const block_taps found = {(odd ? (s->kh + 1) / 2 : 0) + first, end > first ? end - first : 0, begin + first};
    return found;
}

/* the kernel of some channels (at most four), turned round: row after row, or the even ones and then the odd ones */
static inline void block_turned_weights(int16_t *to, int32_t size, const int8_t *w, int32_t channels,
                                        const conv2d_shape *s)
{
    for (int32_t half = 0; half < s->sh; half++) {
        for (int32_t a = half; a < s->kh; a += s->sh, to += plane_row(s->kh, s->kw)) {
            plane_weights(to, size, w + ((s->kh - a) * s->kw - 1) * s->c, -s->c, channels, 1, s->kw);
        }
    }
}

/* rows t->last..last-1 of g are laid out behind those that are there */
ALWAYS_INLINE void block_band_more(block_band *t, int32_t last, const void *g, const int8_t *ge, int32_t at,
                                   const int16_t *share, int32_t highest, int32_t n, const conv2d_shape *s,
                                   int32_t bytes)
{
    for (; t->last < last; t->last++) {
        int16_t *to = t->planes + (t->last - t->first) * t->width + s->kw - 1 - s->pl;
        const int32_t d = BLOCK_SHARE + highest - ge[t->last * block_groups(s->c)];
        const int32_t from = at + t->last * s->ow * s->c, even = n & ~1;
        if (even) {
            mantissas_planes(to, t->plane, s->sw, g, from, s->c, share, d, s->ow, even, bytes);
        }
        for (int32_t j = 0; even < n && j < s->ow; j++) { /* the last of an odd number of channels */
            const int32_t v = block_get(g, from + j * s->c + even, bytes) * share[even];
            to[even * t->plane + j * s->sw] = (int16_t)block_half_up(v, d);
        }
    }
}

/* rows before `first` go: what is left moves to the front */
static inline void block_band_move(block_band *t, int32_t first, int32_t n)
{
    const int32_t by = (first - t->first) * t->width, left = t->last > first ? (t->last - first) * t->width : 0;
    for (int32_t k = 0; k < n && by; k++) {
        int16_t *plane = t->planes + k * t->plane;
        for (int32_t i = 0; i < left; i++) {
            plane[i] = plane[by + i];
        }
    }
    t->first = first;
    t->last = t->last > first ? t->last : first;
}

/* the sums of dx rows r..end-1 of all n channels of the group */
static inline void block_band_sums(int32_t *acc, int32_t pitch, const block_band *t, const int16_t *weights,
                                   int32_t size, int32_t r, int32_t end, int32_t n, const conv2d_shape *s)
{
    plane_line lines[BLOCK_LINES];
    plane_task task = {t->planes, weights, lines, lines + (end - r), t->width, plane_row(s->kh, s->kw), s->kh, s->kw, 1,
                       s->w, 0};
    for (int32_t i = r; i < end; i++) {
        const block_taps taps = block_taps_of(i, s);
        const plane_line line = {taps.skip, taps.rows, taps.rows ? (taps.row - t->first) * t->width : 0, 0};
        lines[i - r] = line;
    }
    plane_prepare(lines, &task);
    for (int32_t k = 0; k < n; k++, acc += pitch, task.plane += t->plane, task.w += size) {
        plane_sums(acc, &task);
    }
}

/* one group of an image; `at` is its first number in g, `to` in dx */
ALWAYS_INLINE void block_planes_group(void *dx, int8_t *dxe, int32_t to, const void *g, const int8_t *ge, int32_t at,
                                      const int16_t *weights, int32_t size, const int16_t *share, int32_t k, int32_t n,
                                      int32_t band, block_band t, int32_t *acc, const conv2d_shape *s, int32_t bytes)
{
    const int32_t groups = block_groups(s->c), pitch = (band * s->w + 7) & ~3;
    const int32_t highest = block_highest(ge, s->oh, groups), exponent = block_exponent(highest, bytes) + k;
    block_runs sums = {.x = acc, .piece = band * s->w};
    for (int32_t i = 0; i < BLOCK_GROUP; i++) {
        sums.where[i] = i * pitch;
    }
    for (int32_t r = 0; r < s->h; r += band) {
        const int32_t end = s->h - r < band ? s->h : r + band, low = r + s->pt - (s->kh - 1);
        const int32_t first = low > 0 ? (low + s->sh - 1) / s->sh : 0, last = (end - 1 + s->pt) / s->sh + 1;
        block_band_move(&t, first < s->oh ? first : s->oh, n);
        block_band_more(&t, last < s->oh ? last : s->oh, g, ge, at, share, highest, n, s, bytes);
        block_band_sums(acc, pitch, &t, weights, size, r, end, n, s);
        for (int32_t i = r; i < end; i++) {
            block_store_runs(dx, dxe + i * groups, to + i * s->w * s->c, s->c, &sums, (i - r) * s->w, s->w, n, exponent,
                             bytes);
        }
    }
}

ALWAYS_INLINE void block_planes_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const int8_t *w,
                                   const int16_t *share, const int16_t *k, int32_t band, int32_t rows, int32_t width,
                                   const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t groups = block_groups(s->c), size = 2 * s->kh * s->kw;
    int32_t *acc = (int32_t *)scratch;
    int16_t *weights = (int16_t *)(void *)(acc + BLOCK_GROUP * ((band * s->w + 7) & ~3));
    const block_band t = {weights + BLOCK_GROUP * size, width, rows * width, 0, 0};
    block_clear(t.planes, BLOCK_GROUP * t.plane); /* what lies beside g stays zero */
    for (int32_t group = 0; group < groups; group++) {
        const int32_t c = group * BLOCK_GROUP, width_of = block_width(c, s->c);
        for (int32_t i = 0; i < width_of; i += PLANES) {
            block_turned_weights(weights + i * size, size, w + c + i, width_of - i < PLANES ? width_of - i : PLANES, s);
        }
        for (int32_t n = 0; n < s->n; n++) {
            block_planes_group(dx, dxe + n * s->h * groups + group, n * s->h * s->w * s->c + c, g,
                               ge + n * s->oh * groups + group, n * s->oh * s->ow * s->c + c, weights, size, share + c,
                               k[group], width_of, band, t, acc, s, bytes);
        }
    }
}

#endif
