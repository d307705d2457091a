/* dx[n,r,q,c] = sum over i,j of g[n,i,j,c] w[u,v,c] where tap u,v of output i,j lies on r,q; as many outputs as inputs,
 * no dilation; w = scale[c] * the integer weight, where the scale comes last; `scale` NULL: scales are those of `source`.
 * Each dx is one chain of multiply-adds, over i, then j, as in depthwise2d_dx_s8: every pixel gathers its
 * contributions. Sixteen channels at a time; their weights are stored as floats, the last tap first, so that they are
 * read in that order. Scratch: 16 kh kw floats; with `over`, 16 oh ow more. In place with `over`, if dx has the shape
 * of g: then the current channels are read from a copy.
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

/* some channels of one image; `t` has their weights, and everything that is the same for each pixel; g has o numbers
 * per pixel */
static void gather_image(gather_task t, const float *g, int32_t channels, int32_t o, const conv2d_shape *s)
{
    const float *w = t.w;
    for (int32_t r = 0; r < s->h; r++) {
        const tap_range is = outputs_on(r, s->pt, s->kh, s->sh, s->oh);
        const int32_t u = s->kh - 1 - (r + s->pt - is.first * s->sh);
        const float *g_row = g + is.first * s->ow * o, *w_row = w + u * s->kw * GATHER;
        t.rows = is.last - is.first;
        for (int32_t q = 0; q < s->w; q++, t.y += s->c) {
            const tap_range js = outputs_on(q, s->pl, s->kw, s->sw, s->ow);
            const int32_t v = s->kw - 1 - (q + s->pl - js.first * s->sw);
            t.g = g_row + js.first * o;
            t.w = w_row + v * GATHER;
            t.cols = js.last - js.first;
            gather(&t, channels);
        }
    }
}

static void copy_channels(float *to, const float *g, int32_t channels, int32_t o, int32_t pixels)
{
    for (int32_t p = 0; p < pixels; p++, g += o, to += GATHER) {
        for (int32_t k = 0; k < channels; k++) {
            to[k] = g[k];
        }
    }
}

void depthwise2d_gather_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale,
                              const weight_scales *source, int32_t over, const conv2d_shape *s, void *scratch)
{
    float side[SCALES_PIECE];
    const int32_t o = over ? GATHER : s->o;
    float *weights = (float *)scratch, *copy = weights + GATHER * s->kh * s->kw;
    for (int32_t c = 0; c < s->c; c += GATHER) {
        const int32_t channels = s->c - c < GATHER ? s->c - c : GATHER;
        gather_task t = {NULL, weights, 0, 0, o, s->ow * o, s->sw * GATHER, s->sh * s->kw * GATHER, dx + c,
                         scale ? scale + c : side};
        if (!scale) {
            channel_scales_f32(side, source, 0.0f, 0, c, channels);
        }
        gather_weights(weights, w + c, channels, s->kh * s->kw, s->c);
        gather_prepare(&t, channels);
        for (int32_t n = 0; n < s->n; n++, t.y += s->h * s->w * s->c) {
            const float *from = g + n * s->oh * s->ow * s->o + c;
            if (over) {
                copy_channels(copy, from, channels, s->o, s->oh * s->ow);
            }
            gather_image(t, over ? copy : from, channels, o, s);
        }
    }
}
