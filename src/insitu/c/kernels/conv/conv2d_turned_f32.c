/* y = min(max(conv2d(x, w, b) + more, lo), hi), where conv2d is that of conv2d_f32, for one group of weights that change:
 * those of 64 outputs are transposed to w[k][outputs] at a time. b and more may be null. Scratch: 4 kh kw c floats for
 * each of these outputs, of which there are at most 64. Not in place.
 */
#include "isa/transpose.h"
#include "kernels/conv/conv_rows.h"

void conv2d_turned_f32(float *y, const float *x, const float *w, const float *b, const float *more, float lo, float hi,
                       const conv2d_shape *shape, void *scratch)
{
    const conv2d_shape flat = as_one_row(shape), *s = &flat;
    const int32_t k = s->kh * s->kw * s->c;
    for (int32_t o = 0; o < s->o; o += PANEL) {
        const int32_t cols = s->o - o < PANEL ? s->o - o : PANEL;
        const conv_part t = {y + o, x, scratch, b ? b + o : NULL, more ? more + o : NULL, lo, hi, cols, cols};
        transpose_f32(scratch, cols, w + (ptrdiff_t)o * k, k, cols, k);
        conv2d_rows(t, s);
    }
}
