/* y = min(max(conv2d(x, w, b) + more, lo), hi), where conv2d is that of conv2d_f32, for constant weights of one group,
 * packed at compile time: in panels of 64 outputs (the last only as wide as needed, rounded up to 16), each
 * w[k][outputs] with k = (u,v,c), zero-padded in outputs. b and more may be null. Not in place.
 */
#include "kernels/conv/conv_rows.h"

void conv2d_packed_f32(float *y, const float *x, const float *w, const float *b, const float *more, float lo, float hi,
                       const conv2d_shape *shape)
{
    const conv2d_shape flat = as_one_row(shape), *s = &flat;
    const int32_t k = s->kh * s->kw * s->c;
    for (int32_t o = 0; o < s->o; o += PANEL) {
        const int32_t cols = s->o - o < PANEL ? s->o - o : PANEL, row = (cols + 15) / 16 * 16;
        const conv_part t = {y + o, x, w + o * k, b ? b + o : NULL, more ? more + o : NULL, lo, hi, cols, row};
        conv2d_rows(t, s);
    }
}
