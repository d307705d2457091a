/* y[r,o] = min(max(b[o] + sum over i of w[o,i] x[r,i] + more[r,o], lo), hi) for constant weights, packed at compile
 * time: in panels of 64 outputs (the last only as wide as needed, rounded up to 16), each w[i][outputs], zero-padded in
 * outputs. b and more may be null. Not in place.
 */
#include "kernels.h"

void linear_packed_f32(float *y, const float *x, const float *w, const float *b, const float *more, float lo, float hi,
                       const linear_shape *s)
{
    for (int32_t o = 0; o < s->o; o += PANEL) {
        const int32_t cols = s->o - o < PANEL ? s->o - o : PANEL;
        const matrix_shape m = {s->rows, cols, s->i, s->o, 0, s->i, 1, (cols + 15) / 16 * 16};
        const matrix_run run = {x, w + o * s->i};
        const matrix_end end = end_of(more ? more + o : NULL, lo, hi);
        matrix_ends_f32(y + o, b ? b + o : NULL, &run, 1, &end, &m);
    }
}
