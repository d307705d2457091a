/* conv2d_packed_f32 and, if `plain`, conv2d_turned_f32 for kernels with short rows: the windows of `tile` outputs at a
 * time become rows of a matrix. b and more may be null. Scratch: tile kh kw c floats, an image with its padding, twice 8
 * floats and, if plain, a copy of w after them. Not in place.
 */
#include "isa/transpose.h"
#include "kernels.h"
#include "kernels/conv/patches.h"

void conv2d_patches_f32(float *y, const float *x, const float *w, const float *b, const float *more, float lo, float hi,
                        int32_t plain, int32_t tile, const conv2d_shape *s, void *scratch)
{
    const int32_t k = s->kh * s->kw * s->c, count = s->oh * s->ow;
    const padded_size size = padded(s);
    float *windows = scratch, *image = windows + tile * k + RUN_MOST, *turned = image + size.floats;
    clear_f32(image, size.floats);
    if (plain) {
        transpose_f32(turned, s->o, w, k, s->o, k);
    }
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c) {
        pad_image(image, x, size, s);
        for (int32_t p = 0, rows; p < count; p += rows, y += rows * s->o, more = more ? more + rows * s->o : NULL) {
            rows = count - p < tile ? count - p : tile;
            patches(windows, image, size.row, p, rows, s);
            for (int32_t o = 0; o < s->o; o += PANEL) {
                const int32_t cols = s->o - o < PANEL ? s->o - o : PANEL;
                const matrix_shape m = {rows, cols, k, s->o, 0, k, 1, plain ? s->o : (cols + 15) / 16 * 16};
                const matrix_run run = {windows, plain ? turned + o : w + o * k};
                const matrix_end end = end_of(more ? more + o : NULL, lo, hi);
                matrix_ends_f32(y + o, b ? b + o : NULL, &run, 1, &end, &m);
            }
        }
    }
}
