/* y[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c]
 * Weights lie as declared, w[o,kh,kw,c/groups]; b may be null. Taps on the padding count as zero.
 * Scratch: 4 kh kw c/groups bytes, one window of one group. Not in place.
 */
#include "isa.h"
#include "kernels.h"

static void window_f32(float *col, const float *x, const conv2d_shape *s, int32_t i, int32_t j, int32_t c0)
{
    const int32_t ci = s->c / s->groups;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t r = i * s->sh + u * s->dh - s->pt;
        for (int32_t v = 0; v < s->kw; v++, col += ci) {
            const int32_t q = j * s->sw + v * s->dw - s->pl;
            const int inside = r >= 0 && r < s->h && q >= 0 && q < s->w;
            const float *from = x + (inside ? (r * s->w + q) * s->c + c0 : 0);
            for (int32_t k = 0; k < ci; k++) {
                col[k] = inside ? from[k] : 0.0f;
            }
        }
    }
}

void conv2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s, void *scratch)
{
    float *col = (float *)scratch;
    const int32_t ci = s->c / s->groups, taps = s->kh * s->kw * ci, og = s->o / s->groups;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++) {
                for (int32_t o = 0; o < s->o; o++) {
                    if (o % og == 0) {
                        window_f32(col, x, s, i, j, o / og * ci);
                    }
                    *y++ = (b ? b[o] : 0.0f) + dot_f32(col, w + o * taps, taps);
                }
            }
        }
    }
}
