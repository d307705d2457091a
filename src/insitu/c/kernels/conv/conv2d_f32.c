/* y[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c]
 * Weights are w[o,kh,kw,c/groups]; b may be null. Taps on the padding count as zero.
 * Those of `panel` outputs are transposed to w[k,outputs] at a time: all their taps or, if that is too much, up to
 * `depth` channels of one tap. Scratch: 4 panel depth bytes. Not in place.
 */
#include "isa/transpose.h"
#include "kernels/conv/conv_panel.h"

/* what one tap adds to y, for some channels from c on */
static void tap_by_tap(float *y, const float *x, const float *turned, int32_t u, int32_t v, const conv2d_shape *s,
                       matrix_shape m)
{
    const span t = span_of(s, v);
    m.rows = t.count;
    for (int32_t n = 0; n < s->n && t.count; n++, x += s->h * s->w * s->c, y += s->oh * s->ow * s->o) {
        for (int32_t i = 0; i < s->oh; i++) {
            const int32_t r = row_under(s, i, u);
            float *to = y + (i * s->ow + t.j) * s->o;
            if (r >= 0) {
                matrix_f32(to, to, x + (r * s->w + t.j * s->sw + v * s->dw - s->pl) * s->c, turned, &m);
            }
        }
    }
}

static void in_pieces(float *y, const float *x, const float *w, const float *b, int32_t cols, int32_t depth,
                      const conv2d_shape *s, float *turned)
{
    const int32_t ci = s->c / s->groups, taps = s->kh * s->kw;
    matrix_shape m = {s->n * s->oh * s->ow, cols, 0, s->o, 0, s->sw * s->c, 1, cols};
    matrix_f32(y, b, x, turned, &m); /* only the bias */
    m.start_row = s->o;
    for (int32_t t = 0; t < taps; t++) {
        for (int32_t c = 0; c < ci; c += m.depth) {
            m.depth = ci - c < depth ? ci - c : depth;
            transpose_f32(turned, cols, w + t * ci + c, taps * ci, cols, m.depth);
            tap_by_tap(y, x + c, turned, t / s->kw, t % s->kw, s, m);
        }
    }
}

void conv2d_f32(float *y, const float *x, const float *w, const float *b, int32_t panel, int32_t depth,
                const conv2d_shape *shape, void *scratch)
{
    const conv2d_shape flat = as_one_row(shape), *s = &flat;
    const int32_t ci = s->c / s->groups, k = s->kh * s->kw * ci, og = s->o / s->groups;
    for (int32_t o = 0, cols; o < s->o; o += cols) {
        const int32_t group = o / og, left = (group + 1) * og - o;
        const float *from = x + group * ci, *bias = b ? b + o : NULL;
        cols = left < panel ? left : panel;
        if (k > depth) {
            in_pieces(y + o, from, w + o * k, bias, cols, depth, s, scratch);
        } else {
            transpose_f32(scratch, cols, w + o * k, k, cols, k);
            conv2d_panel(y + o, from, scratch, bias, cols, cols, s);
        }
    }
}
