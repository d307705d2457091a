/* dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v of output i,j lies on r,q; as many outputs as inputs,
 * no dilation; w = scale[c] * the integer weight, where the scale comes last.
 * Each dx is one chain of multiply-adds, over i, then j, as in depthwise2d_dx_s8: every pixel gathers what it gave.
 * Sixteen channels at a time; their weights lie as floats, the last tap first, so that they are read in that order.
 * Scratch: 16 kh kw floats. Not in place.
 */
#include "isa/gather.h"
#include "kernels.h"

/* the outputs that have a tap on r: first..last-1, as a range along one axis */
static tap_range outputs_on(int32_t r, int32_t before, int32_t kernel, int32_t stride, int32_t size)
{
    const int32_t low = r + before - kernel + 1, end = (r + before) / stride + 1;
    const int32_t first = low > 0 ? (low + stride - 1) / stride : 0, last = end < size ? end : size;
    const tap_range found = {first, last > first ? last : first};
    return found;
}

static void turned_weights(float *to, const int8_t *w, int32_t channels, int32_t taps, int32_t c)
{
    for (int32_t t = taps - 1; t >= 0; t--, to += GATHER) {
        for (int32_t k = 0; k < channels; k++) {
            to[k] = (float)w[t * c + k];
        }
    }
}

/* some channels of one image */
static void gather_image(float *dx, const float *g, const float *w, const float *scale, int32_t channels,
                         const conv2d_shape *s)
{
    for (int32_t r = 0; r < s->h; r++) {
        const tap_range is = outputs_on(r, s->pt, s->kh, s->sh, s->oh);
        const int32_t u = s->kh - 1 - (r + s->pt - is.first * s->sh);
        for (int32_t q = 0; q < s->w; q++, dx += s->c) {
            const tap_range js = outputs_on(q, s->pl, s->kw, s->sw, s->ow);
            const int32_t v = s->kw - 1 - (q + s->pl - js.first * s->sw);
            const gather_task t = {g + (is.first * s->ow + js.first) * s->o, w + (u * s->kw + v) * GATHER,
                                   is.last - is.first, js.last - js.first, s->o, s->ow * s->o,
                                   s->sw * GATHER, s->sh * s->kw * GATHER, dx, scale};
            gather(&t, channels);
        }
    }
}

void depthwise2d_gather_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, const conv2d_shape *s,
                              void *scratch)
{
    for (int32_t c = 0; c < s->c; c += GATHER) {
        const int32_t channels = s->c - c < GATHER ? s->c - c : GATHER;
        turned_weights(scratch, w + c, channels, s->kh * s->kw, s->c);
        for (int32_t n = 0; n < s->n; n++) {
            gather_image(dx + n * s->h * s->w * s->c + c, g + n * s->oh * s->ow * s->o + c, scratch, scale + c,
                         channels, s);
        }
    }
}
