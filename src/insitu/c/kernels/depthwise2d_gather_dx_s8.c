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

/* some channels of one image; `t` has their weights, and all that is the same for each pixel */
static void gather_image(gather_task t, const float *g, int32_t channels, const conv2d_shape *s)
{
    const float *w = t.w;
    for (int32_t r = 0; r < s->h; r++) {
        const tap_range is = outputs_on(r, s->pt, s->kh, s->sh, s->oh);
        const int32_t u = s->kh - 1 - (r + s->pt - is.first * s->sh);
        const float *g_row = g + is.first * s->ow * s->o, *w_row = w + u * s->kw * GATHER;
        t.rows = is.last - is.first;
        for (int32_t q = 0; q < s->w; q++, t.y += s->c) {
            const tap_range js = outputs_on(q, s->pl, s->kw, s->sw, s->ow);
            const int32_t v = s->kw - 1 - (q + s->pl - js.first * s->sw);
            t.g = g_row + js.first * s->o;
            t.w = w_row + v * GATHER;
            t.cols = js.last - js.first;
            gather(&t, channels);
        }
    }
}

void depthwise2d_gather_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, const conv2d_shape *s,
                              void *scratch)
{
    for (int32_t c = 0; c < s->c; c += GATHER) {
        const int32_t channels = s->c - c < GATHER ? s->c - c : GATHER;
        gather_task t = {NULL, scratch, 0, 0, s->o, s->ow * s->o, s->sw * GATHER, s->sh * s->kw * GATHER, dx + c, scale + c};
        gather_weights(scratch, w + c, channels, s->kh * s->kw, s->c);
        gather_prepare(&t, channels);
        for (int32_t n = 0; n < s->n; n++, t.y += s->h * s->w * s->c) {
            gather_image(t, g + n * s->oh * s->ow * s->o + c, channels, s);
        }
    }
}
