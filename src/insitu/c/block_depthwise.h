/* The gradients of a depthwise convolution in block floating numbers, for mantissas of either width. See block.h. */
#ifndef INSITU_BLOCK_DEPTHWISE_H
#define INSITU_BLOCK_DEPTHWISE_H

#include "block_conv.h"
#include "isa/mantissas.h"

/* The outputs j with a tap on q are first, first + 1, ..: `count` of them where the kernel is not dilated. The tap of
 * the first is v, that of the next v - sw. */
typedef struct {
    int32_t first, count, v;
} block_taps;

static inline block_taps block_taps_on(int32_t q, const conv2d_shape *s)
{
    const int32_t low = q + s->pl - s->kw + 1, end = (q + s->pl) / s->sw + 1;
    const int32_t first = low > 0 ? (low + s->sw - 1) / s->sw : 0, last = end < s->ow ? end : s->ow;
    const block_taps found = {first, last > first ? last - first : 0, q + s->pl - first * s->sw};
    return found;
}

/* acc[k] += sum[k] / 2^d for up to four */
static inline void block_add_aligned(int32_t *acc, const int32_t *sum, int32_t n, int32_t d)
{
    for (int32_t k = 0; k < n; k++) {
        acc[k] += d ? block_half_up(sum[k], d) : sum[k];
    }
}

/* one channel of one pixel, any dilation */
ALWAYS_INLINE int32_t block_depthwise_sum(const void *g, int32_t row, const int8_t *w, int32_t q, int32_t c,
                                          const conv2d_shape *s, int32_t bytes)
{
    int32_t sum = 0;
    for (int32_t v = 0; v < s->kw; v++) {
        const int32_t at = q + s->pl - v * s->dw, j = at / s->sw;
        if (at >= 0 && at % s->sw == 0 && j < s->ow) {
            sum += block_get(g, row + j * s->c + c, bytes) * w[v * s->c + c];
        }
    }
    return sum;
}

/* acc[q,c] += (sum over v of g[i,j,c] w[u,v,c]) / 2^d for one row of dx: `row` is where row i of g begins */
ALWAYS_INLINE void block_depthwise_row(int32_t *acc, const void *g, int32_t row, const int8_t *w, int32_t d,
                                       const conv2d_shape *s, int32_t bytes)
{
    const int32_t fours = s->dw == 1 ? s->c & ~3 : 0;
    for (int32_t q = 0; q < s->w; q++, acc += s->c) {
        const block_taps taps = block_taps_on(q, s);
        for (int32_t c = 0; taps.count && c < fours; c += 4) {
            int32_t sum[4];
            mantissas_times4(sum, g, row + taps.first * s->c + c, s->c, w + taps.v * s->c + c, -s->sw * s->c,
                             taps.count, bytes);
            block_add_aligned(acc + c, sum, 4, d);
        }
        for (int32_t c = fours; c < s->c; c++) {
            const int32_t sum = block_depthwise_sum(g, row, w, q, c, s, bytes);
            block_add_aligned(acc + c, &sum, 1, d);
        }
    }
}

/* acc = acc share / 2^15, in 32 bits: the upper and the lower part of acc apart */
static inline void block_times_share(int32_t *acc, const uint16_t *share, int32_t pixels, int32_t c)
{
    for (int32_t q = 0; q < pixels; q++) {
        for (int32_t k = 0; k < c; k++, acc++) {
            const int32_t high = *acc >> BLOCK_SHARE, low = *acc & ((1 << BLOCK_SHARE) - 1);
            *acc = high * share[k] + block_half_up(low * share[k], BLOCK_SHARE);
        }
    }
}

ALWAYS_INLINE void block_depthwise_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const int8_t *w,
                                      const uint16_t *share, int32_t k, const conv2d_shape *s, void *scratch,
                                      int32_t bytes)
{
    int32_t *acc = (int32_t *)scratch;
    for (int32_t n = 0; n < s->n; n++) {
        for (int32_t r = 0; r < s->h; r++) {
            const int32_t line = n * s->h + r, highest = block_window(ge + n * s->oh, r, s);
            for (int32_t i = 0; i < s->w * s->c; i++) {
                acc[i] = 0;
            }
            for (int32_t u = 0; u < s->kh; u++) {
                const int32_t i = block_row_of(r, u, s), from = n * s->oh + i;
                if (i >= 0) {
                    block_depthwise_row(acc, g, from * s->ow * s->c, w + u * s->kw * s->c, highest - ge[from], s,
                                        bytes);
                }
            }
            block_times_share(acc, share, s->w, s->c);
            block_store(dx, dxe + line, line * s->w * s->c, acc, s->w * s->c, block_exponent(highest, bytes) + k,
                        bytes);
        }
    }
}

/* dw[u,v,c] += p[j,c] (x - zero) for one row of g, aligned; x is the image */
static inline void block_depthwise_dw_row(int32_t *dw, const int16_t *p, const int8_t *x, int32_t i, int32_t zero,
                                          const conv2d_shape *s)
{
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t y = i * s->sh + u * s->dh - s->pt;
        for (int32_t j = 0; y >= 0 && y < s->h && j < s->ow; j++) {
            for (int32_t v = 0; v < s->kw; v++) {
                const int32_t q = j * s->sw + v * s->dw - s->pl;
                const int8_t *from = x + (y * s->w + q) * s->c;
                int32_t *to = dw + (u * s->kw + v) * s->c;
                for (int32_t c = 0; q >= 0 && q < s->w && c < s->c; c++) {
                    to[c] += p[j * s->c + c] * (from[c] - zero);
                }
            }
        }
    }
}

ALWAYS_INLINE void block_depthwise_dw(int32_t *dw, int8_t *dwe, const void *g, const int8_t *ge, const int8_t *x,
                                      int32_t zero, int32_t drop, const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t highest = block_highest(ge, s->n * s->oh);
    *dwe = block_sum_exponent(block_exponent(highest, bytes) + drop);
    for (int32_t i = 0; i < s->kh * s->kw * s->c; i++) {
        dw[i] = 0;
    }
    for (int32_t line = 0; line < s->n * s->oh; line++) {
        block_aligned_row(scratch, g, line * s->ow * s->c, s->ow * s->c, drop + highest - ge[line], bytes);
        block_depthwise_dw_row(dw, scratch, x + line / s->oh * s->h * s->w * s->c, line % s->oh, zero, s);
    }
}

#endif
