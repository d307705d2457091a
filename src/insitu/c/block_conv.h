/* The gradients of a convolution in block floating numbers, for mantissas of either width. See block.h. */
#ifndef INSITU_BLOCK_CONV_H
#define INSITU_BLOCK_CONV_H

#include "block.h"
#include "shapes.h"

/* which output row has tap u of its window on row r; -1 where none has */
static inline int32_t block_row_of(int32_t r, int32_t u, const conv2d_shape *s)
{
    const int32_t at = r + s->pt - u * s->dh;
    return at >= 0 && at % s->sh == 0 && at / s->sh < s->oh ? at / s->sh : -1;
}

/* the largest exponent of the rows of g (an image's) that row r gathers from */
static inline int32_t block_window(const int8_t *ge, int32_t r, const conv2d_shape *s)
{
    int32_t most = BLOCK_ZERO;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t i = block_row_of(r, u, s);
        most = i >= 0 && ge[i] > most ? ge[i] : most;
    }
    return most;
}

/* p = g share / 2^d for one row of pixels */
ALWAYS_INLINE void block_scaled_row(int16_t *p, const void *g, int32_t at, const uint16_t *share, int32_t pixels,
                                    int32_t o, int32_t d, int32_t bytes)
{
    for (int32_t j = 0; j < pixels; j++, at += o, p += o) {
        for (int32_t k = 0; k < o; k++) {
            p[k] = (int16_t)block_half_up(block_get(g, at + k, bytes) * share[k], d);
        }
    }
}

/* p = g / 2^d for n mantissas */
ALWAYS_INLINE void block_aligned_row(int16_t *p, const void *g, int32_t at, int32_t n, int32_t d, int32_t bytes)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = block_get(g, at + i, bytes);
        p[i] = (int16_t)(d ? block_half_up(v, d) : v);
    }
}

enum { BLOCK_COLUMNS = 4 };

/* acc[0..cols-1] += sum over n outputs of p[o] w[o * row + column] */
static inline void block_columns(int32_t *acc, const int16_t *p, const int8_t *w, int32_t n, int32_t row, int32_t cols)
{
    if (cols == BLOCK_COLUMNS) {
        int32_t a = acc[0], b = acc[1], c = acc[2], d = acc[3];
        for (int32_t o = 0; o < n; o++, w += row) {
            const int32_t x = p[o];
            a += x * w[0];
            b += x * w[1];
            c += x * w[2];
            d += x * w[3];
        }
        acc[0] = a, acc[1] = b, acc[2] = c, acc[3] = d;
        return;
    }
    for (int32_t o = 0; o < n; o++, w += row) {
        for (int32_t c = 0; c < cols; c++) {
            acc[c] += p[o] * w[c];
        }
    }
}

/* acc[q,c] += what tap row u of the packed row p gives to pixel q */
static inline void block_gather(int32_t *acc, const int16_t *p, const int8_t *w, int32_t u, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups, row = s->kh * s->kw * ci;
    for (int32_t q = 0; q < s->w; q++) {
        for (int32_t v = 0; v < s->kw; v++) {
            const int32_t at = q + s->pl - v * s->dw, j = at / s->sw;
            if (at < 0 || at % s->sw || j >= s->ow) {
                continue;
            }
            for (int32_t group = 0; group < s->groups; group++) {
                const int8_t *from = w + group * og * row + (u * s->kw + v) * ci;
                for (int32_t c = 0; c < ci; c += BLOCK_COLUMNS) {
                    block_columns(acc + q * s->c + group * ci + c, p + j * s->o + group * og, from + c, og, row,
                                  ci - c < BLOCK_COLUMNS ? ci - c : BLOCK_COLUMNS);
                }
            }
        }
    }
}

ALWAYS_INLINE void block_conv_dx(void *dx, int8_t *dxe, const void *g, const int8_t *ge, const int8_t *w,
                                 const uint16_t *share, int32_t k, int32_t drop, const conv2d_shape *s, void *scratch,
                                 int32_t bytes)
{
    int32_t *acc = (int32_t *)scratch;
    int16_t *p = (int16_t *)(void *)(acc + s->w * s->c);
    for (int32_t n = 0; n < s->n; n++) {
        for (int32_t r = 0; r < s->h; r++) {
            const int32_t line = n * s->h + r, highest = block_window(ge + n * s->oh, r, s);
            for (int32_t i = 0; i < s->w * s->c; i++) {
                acc[i] = 0;
            }
            for (int32_t u = 0; u < s->kh; u++) {
                const int32_t i = block_row_of(r, u, s), from = n * s->oh + i;
                if (i >= 0) {
                    block_scaled_row(p, g, from * s->ow * s->o, share, s->ow, s->o,
                                     BLOCK_SHARE + drop + highest - ge[from], bytes);
                    block_gather(acc, p, w, u, s);
                }
            }
            block_store(dx, dxe + line, line * s->w * s->c, acc, s->w * s->c,
                        block_exponent(highest, bytes) + k + drop, bytes);
        }
    }
}

/* dw[o, tap of u,v, k] += p[o] (x - zero) for one pixel of g and of x */
static inline void block_outer(int32_t *dw, const int16_t *p, const int8_t *x, const int32_t *channels, int32_t count,
                               int32_t outputs, int32_t row, int32_t zero)
{
    for (int32_t o = 0; o < outputs; o++, dw += row) {
        const int32_t a = p[o];
        for (int32_t k = 0; k < count; k++) {
            dw[k] += a * (x[channels ? channels[k] : k] - zero);
        }
    }
}

/* what one row of g, aligned, gives to the whole of dw; x is the image */
static inline void block_dw_row(int32_t *dw, const int16_t *p, const int8_t *x, const int32_t *channels, int32_t count,
                                int32_t i, int32_t zero, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups, row = s->kh * s->kw * count;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t y = i * s->sh + u * s->dh - s->pt;
        for (int32_t j = 0; y >= 0 && y < s->h && j < s->ow; j++) {
            for (int32_t v = 0; v < s->kw; v++) {
                const int32_t q = j * s->sw + v * s->dw - s->pl;
                for (int32_t group = 0; q >= 0 && q < s->w && group < s->groups; group++) {
                    block_outer(dw + group * og * row + (u * s->kw + v) * count, p + j * s->o + group * og,
                                x + (y * s->w + q) * s->c + group * ci, channels, count, og, row, zero);
                }
            }
        }
    }
}

ALWAYS_INLINE void block_conv_dw(int32_t *dw, int8_t *dwe, const void *g, const int8_t *ge, const int8_t *x,
                                 const int32_t *channels, int32_t count, int32_t zero, int32_t drop,
                                 const conv2d_shape *s, void *scratch, int32_t bytes)
{
    const int32_t highest = block_highest(ge, s->n * s->oh);
    *dwe = block_sum_exponent(block_exponent(highest, bytes) + drop);
    for (int32_t i = 0; i < s->o * s->kh * s->kw * count; i++) {
        dw[i] = 0;
    }
    for (int32_t line = 0; line < s->n * s->oh; line++) {
        block_aligned_row(scratch, g, line * s->ow * s->o, s->ow * s->o, drop + highest - ge[line], bytes);
        block_dw_row(dw, scratch, x + line / s->oh * s->h * s->w * s->c, channels, count, line % s->oh, zero, s);
    }
}

#endif
