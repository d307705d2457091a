/* dw[o,u,v,k] = sum over n,i,j of g[n,i,j,o] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, channels[k]]
 * where x = scale * (the integer - zero); the scale comes last.
 * `channels` may be null: all of them. Each dw is one chain of multiply-adds, over n, then i, then j.
 * Scratch: with channels, `piece` pixels of count bytes. Not in place.
 */
#include "isa/fma.h"
#include "kernels.h"
#include "kernels/spans.h"

/* taps that are contiguous in x and in dw are processed together */
static void whole_row(float *dw, const float *g, const int8_t *x, int32_t zero, const conv2d_shape *s,
                      matrix_shape m)
{
    const int32_t ci = s->c / s->groups, og = s->o / s->groups;
    for (span t = span_at(s, 0); t.j < s->ow; t = span_at(s, t.j + t.count)) {
        const int32_t together = s->dw == 1 && s->groups == 1 && t.taps ? t.taps : 1;
        m.cols = together * ci;
        m.depth = t.count;
        for (int32_t v = t.tap; v < t.tap + t.taps; v += together) {
            const int8_t *from = x + (t.j * s->sw + v * s->dw - s->pl) * s->c;
            for (int32_t k = 0; k < s->groups; k++) {
                float *to = dw + v * ci + k * og * m.y_row;
                matrix_s8(to, to, g + t.j * s->o + k * og, from + k * ci, zero, &m);
            }
        }
    }
}

/* the wanted channels of some pixels at a time, side by side */
static void some_channels(float *dw, const float *g, const int8_t *x, const int32_t *channels, int32_t piece,
                          int32_t zero, const conv2d_shape *s, matrix_shape m, int8_t *side)
{
    const int32_t count = m.cols;
    m.b_row = count;
    for (int32_t v = 0; v < s->kw; v++) {
        const span t = span_of(s, v);
        for (int32_t j = t.j; j < t.j + t.count; j += m.depth) {
            m.depth = t.j + t.count - j < piece ? t.j + t.count - j : piece;
            for (int32_t p = 0; p < m.depth; p++) {
                const int8_t *from = x + ((j + p) * s->sw + v * s->dw - s->pl) * s->c;
                for (int32_t k = 0; k < count; k++) {
                    side[p * count + k] = from[channels[k]];
                }
            }
            matrix_s8(dw + v * count, dw + v * count, g + j * s->o, side, zero, &m);
        }
    }
}

void conv2d_dw_s8(float *dw, const float *g, const int8_t *x, const int32_t *channels, int32_t count, int32_t piece,
                  float scale, int32_t zero, const conv2d_shape *shape, void *scratch)
{
    const conv2d_shape flat = as_one_row(shape), *s = &flat;
    const int32_t k = channels ? count : s->c / s->groups, row = s->kh * s->kw * k;
    const matrix_shape m = {s->o / s->groups, k, 0, row, row, 1, s->o, s->sw * s->c};
    clear_f32(dw, s->o * row);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++, g += s->ow * s->o) {
            for (int32_t u = 0; u < s->kh; u++) {
                const int32_t r = row_under(s, i, u);
                if (r >= 0 && channels) {
                    some_channels(dw + u * s->kw * k, g, x + r * s->w * s->c, channels, piece, zero, s, m, scratch);
                } else if (r >= 0) {
                    whole_row(dw + u * s->kw * k, g, x + r * s->w * s->c, zero, s, m);
                }
            }
        }
    }
    scale_f32(dw, scale, s->o * row);
}
