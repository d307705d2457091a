/* y[n,i,j,o] = b[o] + sum over u,v,c of w[o,u,v,c] x[n, i*sh + u*dh - pt, j*sw + v*dw - pl, c]
 * b may be null. Taps on the padding count as zero. Not in place.
 */
#include "kernels.h"

static float conv2d_at(const float *x, const float *w, const conv2d_shape *s, int32_t i, int32_t j, int32_t c0)
{
    const int32_t ci = s->c / s->groups;
    float sum = 0.0f;
    for (int32_t u = 0; u < s->kh; u++) {
        const int32_t r = i * s->sh + u * s->dh - s->pt;
        for (int32_t v = 0; v < s->kw; v++, w += ci) {
            const int32_t q = j * s->sw + v * s->dw - s->pl;
            if (r < 0 || r >= s->h || q < 0 || q >= s->w) {
                continue;
            }
            const float *p = x + (r * s->w + q) * s->c + c0;
            for (int32_t k = 0; k < ci; k++) {
                sum += p[k] * w[k];
            }
        }
    }
    return sum;
}

void conv2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s)
{
    const int32_t ci = s->c / s->groups, taps = s->kh * s->kw * ci, og = s->o / s->groups;
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t i = 0; i < s->oh; i++) {
            for (int32_t j = 0; j < s->ow; j++) {
                for (int32_t o = 0; o < s->o; o++) {
                    *y++ = (b ? b[o] : 0.0f) + conv2d_at(x, w + o * taps, s, i, j, o / og * ci);
                }
            }
        }
    }
}
