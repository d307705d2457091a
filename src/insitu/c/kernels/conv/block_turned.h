/* Gradients of weights in block floating numbers by products of pairs: the sums of block_conv.h and block_depthwise.h in
 * another order, so the same integers. See isa/turned.h.
 *
 * Some pixels at a time, `piece` of them. A tap of the window sees each of them somewhere in x, or beyond its edge, where
 * a pixel of zeros is used instead: a list has the places.
 */
#ifndef INSITU_BLOCK_TURNED_H
#define INSITU_BLOCK_TURNED_H

#include "isa/turned.h"
#include "kernels/conv/block_conv.h"
#include "kernels/spans.h"

/* the places where one row of outputs, from j on, sees x with tap v of a window: `x` is the row of inputs, negative
 * beyond the edge */
static inline int32_t *turned_line(int32_t *to, int32_t x, int32_t beyond, int32_t j, int32_t n, int32_t v,
                                   const conv2d_shape *s)
{
    int32_t q = j * s->sw + v * s->dw - s->pl;
    for (; n > 0; n--, q += s->sw) {
        *to++ = x >= 0 && q >= 0 && q < s->w ? x + q * s->c : beyond;
    }
    return to;
}

/* the same for `pixels` outputs from `at` on, with one more after an odd number of them */
ONCE void turned_places(int32_t *to, int32_t beyond, int32_t at, int32_t pixels, int32_t tap,
                                 const conv2d_shape *s)
{
    const int32_t u = tap / s->kw, v = tap % s->kw, odd = pixels & 1;
    for (int32_t line = at / s->ow, j = at % s->ow; pixels > 0; line++, j = 0) {
        const int32_t r = row_under(s, line % s->oh, u), n = pixels < s->ow - j ? pixels : s->ow - j;
        to = turned_line(to, r < 0 ? -1 : (line / s->oh * s->h + r) * s->w * s->c, beyond, j, n, v, s);
        pixels -= n;
    }
    if (odd) {
        *to = to[-1];
    }
}

/* the factor of each pixel for one group of channels, with 0 after an odd number of them; returns whether one is
 * TURNED_FAR. `ge` begins with the group. */
ONCE int32_t turned_factors(int16_t *to, const int8_t *ge, int32_t at, int32_t pixels, int32_t e,
                                     int32_t groups, int32_t w)
{
    const int32_t odd = pixels & 1;
    int32_t far = 0;
    ge += at / w * groups;
    for (int32_t j = at % w; pixels > 0; j = 0, ge += groups) {
        const int16_t factor = turned_factor(e - *ge);
        far |= factor == TURNED_FAR;
        for (; j < w && pixels > 0; j++, pixels--) {
            *to++ = factor;
        }
    }
    if (odd) {
        *to = 0;
    }
    return far;
}

/* n channels of one group of g from c on, of s->o in total, aligned to exponent e and transposed */
ALWAYS_INLINE void turned_group(int16_t *to, int16_t *factor, const void *g, const int8_t *ge, int32_t at, int32_t c,
                                int32_t n, int32_t pixels, int32_t e, const conv2d_shape *s, int32_t bytes)
{
    const int32_t far = turned_factors(factor, ge + c / BLOCK_GROUP, at, pixels, e, block_groups(s->o), s->ow);
    for (int32_t k = 0; k < n; k += TURNED, to += turned_row(TURNED, (pixels + 1) >> 1)) {
        turned_gradients(to, g, at * s->o + c + k, s->o, factor, far, pixels, n - k < TURNED ? n - k : TURNED, bytes);
    }
}

/* columns k.. of x or of the chosen ones, `cols` of them, at most four; the others repeat the last */
static inline void turned_some(int16_t *to, const int8_t *x, const int32_t *place, const int32_t *channels, int32_t k,
                               int32_t cols, int32_t zero, int32_t words)
{
    if (!channels && cols >= TURNED) {
        turned_inputs(to, x + k, place, zero, words);
        return;
    }
    int32_t column[TURNED];
    for (int32_t j = 0; j < TURNED; j++) {
        const int32_t which = k + (j < cols ? j : cols - 1);
        column[j] = channels ? channels[which] : which;
    }
    turned_columns(to, x, place, column, zero, words);
}

/* blocks that cross an edge: `outputs` outputs from t->dw on, up to four columns */
APART void turned_edge(turned_task t, int32_t outputs, int32_t cols)
{
    int32_t side[2 * TURNED], *dw = t.dw;
    const int32_t row = t.row / (int32_t)sizeof(*dw), more = t.more;
    const int16_t *g = t.g;
    t.dw = side;
    t.row = TURNED * sizeof(*side);
    t.fours = t.twos = 1;
    t.more = 0;
    for (int32_t o = 0; o < outputs; o++, dw += row) {
        t.g = g + turned_row(o, t.words);
        if (o % 2 == 0) {
            turned_sums(&t);
        }
        for (int32_t k = 0; k < cols; k++) {
            dw[k] = (more ? dw[k] : 0) + side[o % 2 * TURNED + k];
        }
    }
}

/* all columns, `count`, and `outputs` outputs */
static inline void turned_block(turned_task t, int32_t outputs, int32_t count)
{
    const int32_t whole = count & -TURNED, even = outputs & -2, row = t.row / (int32_t)sizeof(*t.dw);
    t.fours = whole / TURNED;
    t.twos = even / 2;
    if (whole && even) {
        turned_sums(&t);
    }
    turned_task edge = t;
    for (int32_t k = 0; even < outputs && k < whole; k += TURNED) {
        edge.x = t.x + turned_row(k, t.words);
        edge.g = t.g + turned_row(even, t.words);
        edge.dw = t.dw + even * row + k;
        turned_edge(edge, 1, TURNED);
    }
    if (whole < count) {
        edge.x = t.x + turned_row(whole, t.words);
        edge.g = t.g;
        edge.dw = t.dw + whole;
        turned_edge(edge, outputs, count - whole);
    }
}

/* a pixel of zeros, if windows may cross the edge */
static inline void turned_nothing(int8_t *to, int32_t zero, const conv2d_shape *s)
{
    for (int32_t k = 0; !is_pointwise(s) && k < s->c; k++) {
        to[k] = (int8_t)zero;
    }
}

/* the contribution of pixels from `at` on to dw[o,tap,k]. A group of g that is already transposed is used again. */
ALWAYS_INLINE void turned_piece(int32_t *dw, const void *g, const int8_t *ge, const int8_t *x, const int32_t *channels,
                                int32_t count, int32_t zero, const int8_t *highest, int32_t drop, int32_t at,
                                int32_t pixels, const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t words = (pixels + 1) >> 1, taps = s->kh * s->kw;
    int32_t *places = (int32_t *)scratch;
    int16_t *factor = (int16_t *)(void *)(places + 2 * words), *rows = factor + 2 * words;
    int16_t *inputs = rows + turned_row(BLOCK_GROUP, words);
    int8_t *nothing = (int8_t *)(inputs + turned_row((count + TURNED - 1) & -TURNED, words));
    int32_t held = -1;
    turned_nothing(nothing, zero, s);
    for (int32_t tap = 0; tap < taps; tap++) {
        turned_places(places, turned_beyond(x, nothing), at, pixels, tap, s);
        for (int32_t k = 0; k < count; k += TURNED) {
            turned_some(inputs + turned_row(k, words), x, places, channels, k, count - k, zero, words);
        }
        for (int32_t o = 0; o < s->o; o += BLOCK_GROUP) {
            const int32_t n = block_width(o, s->o);
            if (held != o) {
                turned_group(rows, factor, g, ge, at, o, n, pixels, highest[o / BLOCK_GROUP] + drop, s, bytes);
                held = o;
            }
            const turned_task t = {inputs, rows, dw + (o * taps + tap) * count,
                                   taps * count * (int32_t)sizeof(*dw), words, 0, 0, at};
            turned_block(t, n, count);
        }
    }
}

ALWAYS_INLINE void block_turned_dw(int32_t *dw, int8_t *dwe, const void *g, const int8_t *ge, const int8_t *x,
                                   const int32_t *channels, int32_t count, int32_t zero, int32_t drop, int32_t piece,
                                   const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t pixels = s->n * s->oh * s->ow;
    block_group_highest(dwe, ge, s->n * s->oh, block_groups(s->o));
    for (int32_t at = 0; at < pixels; at += piece) {
        turned_piece(dw, g, ge, x, channels, count, zero, dwe, drop, at, pixels - at < piece ? pixels - at : piece, s,
                     scratch, bytes);
    }
    block_dw_exponents(dwe, block_groups(s->o), drop, bytes);
}

/* the contribution of pixels from `at` on to dw[tap,c] of a depthwise convolution */
ALWAYS_INLINE void turned_depthwise_piece(int32_t *dw, const void *g, const int8_t *ge, const int8_t *x, int32_t zero,
                                          const int8_t *highest, int32_t drop, int32_t at, int32_t pixels,
                                          const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t words = (pixels + 1) >> 1;
    int32_t *places = (int32_t *)scratch;
    int16_t *factor = (int16_t *)(void *)(places + 2 * words), *rows = factor + 2 * words;
    int8_t *nothing = (int8_t *)(rows + turned_row((s->c + TURNED - 1) & -TURNED, words));
    turned_nothing(nothing, zero, s);
    for (int32_t c = 0; c < s->c; c += BLOCK_GROUP) {
        turned_group(rows + turned_row(c, words), factor, g, ge, at, c, block_width(c, s->c), pixels,
                     highest[c / BLOCK_GROUP] + drop, s, bytes);
    }
    for (int32_t tap = 0; tap < s->kh * s->kw; tap++, dw += s->c) {
        turned_places(places, turned_beyond(x, nothing), at, pixels, tap, s);
        turned_taps(dw, x, places, rows, zero, words, s->c);
    }
}

ALWAYS_INLINE void block_turned_depthwise_dw(int32_t *dw, int8_t *dwe, const void *g, const int8_t *ge, const int8_t *x,
                                             int32_t zero, int32_t drop, int32_t piece, const conv2d_shape *s,
                                             void *scratch, int32_t bytes)
{
    const int32_t pixels = s->n * s->oh * s->ow, groups = block_groups(s->c);
    block_group_highest(dwe, ge, s->n * s->oh, groups);
    for (int32_t i = 0; i < s->kh * s->kw * s->c; i++) {
        dw[i] = 0;
    }
    for (int32_t at = 0; at < pixels; at += piece) {
        turned_depthwise_piece(dw, g, ge, x, zero, dwe, drop, at, pixels - at < piece ? pixels - at : piece, s, scratch,
                               bytes);
    }
    block_dw_exponents(dwe, groups, drop, bytes);
}

#endif
