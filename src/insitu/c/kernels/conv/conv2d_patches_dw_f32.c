/* conv2d_dw_f32 of one group and all channels, for kernels with short rows: the windows of `tile` outputs at a time become
 * rows of a matrix. Each dw is one chain of multiply-adds, over n, then i, then j. Scratch: tile kh kw c floats. Not in
 * place.
 */
#include "kernels.h"
#include "kernels/conv/patches.h"

void conv2d_patches_dw_f32(float *dw, const float *g, const float *x, int32_t tile, const conv2d_shape *s,
                           void *scratch)
{
    const int32_t k = s->kh * s->kw * s->c, count = s->oh * s->ow;
    matrix_shape m = {s->o, k, 0, k, k, 1, s->o, k};
    clear_f32(dw, s->o * k);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        for (int32_t p = 0; p < count; p += m.depth, g += m.depth * s->o) {
            m.depth = count - p < tile ? count - p : tile;
            patches(scratch, x, p, m.depth, s);
            matrix_f32(dw, dw, g, scratch, &m);
        }
    }
}
