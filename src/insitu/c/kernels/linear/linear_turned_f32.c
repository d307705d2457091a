/* y[r,o] = min(max(b[o] + sum over i of w[o,i] x[r,i] + more[r,o], lo), hi) for weights that change: those of 64 outputs
 * are transposed to w[i][outputs] at a time. b and more may be null. Scratch: i floats for each of these outputs, of
 * which there are at most 64. Not in place.
 */
#include "isa/transpose.h"
#include "kernels.h"

void linear_turned_f32(float *y, const float *x, const float *w, const float *b, const float *more, float lo, float hi,
                       const linear_shape *s, void *scratch)
{
    for (int32_t o = 0; o < s->o; o += PANEL) {
        const int32_t cols = s->o - o < PANEL ? s->o - o : PANEL;
        const matrix_shape m = {s->rows, cols, s->i, s->o, 0, s->i, 1, cols};
        const matrix_run run = {x, scratch};
        const matrix_end end = end_of(more ? more + o : NULL, lo, hi);
        transpose_f32(scratch, cols, w + (ptrdiff_t)o * s->i, s->i, cols, s->i);
        matrix_ends_f32(y + o, b ? b + o : NULL, &run, 1, &end, &m);
    }
}
