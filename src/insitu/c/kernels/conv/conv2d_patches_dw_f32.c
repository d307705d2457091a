/* conv2d_dw_f32 of one group and all channels, for kernels with short rows: the windows of `tile` outputs at a time become
 * rows of a matrix. Each dw is one chain of multiply-adds, over n, then i, then j. They are computed as dw[k][o], because
 * o is usually a whole number of vectors. Scratch: tile kh kw c floats, an image with its padding, twice 8 floats, and a
 * copy of dw. Not in place.
 */
#include "isa/transpose.h"
#include "kernels.h"
#include "kernels/conv/patches.h"

void conv2d_patches_dw_f32(float *dw, const float *g, const float *x, int32_t tile, const conv2d_shape *s,
                           void *scratch)
{
    const int32_t k = s->kh * s->kw * s->c, count = s->oh * s->ow;
    const padded_size size = padded(s);
    float *windows = scratch, *image = windows + tile * k + RUN_MOST, *turned = image + size.floats;
    matrix_shape m = {k, s->o, 0, s->o, s->o, 1, k, s->o};
    clear_f32(turned, s->o * k);
    clear_f32(image, size.floats);
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        pad_image(image, x, size, s);
        for (int32_t p = 0; p < count; p += m.depth, g += m.depth * s->o) {
            m.depth = count - p < tile ? count - p : tile;
            patches(windows, image, size.row, p, m.depth, s);
            matrix_f32(turned, turned, windows, g, &m);
        }
    }
    transpose_f32(dw, k, turned, s->o, k, s->o);
}
