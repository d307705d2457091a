/* conv2d_packed_f32 and, if `plain`, conv2d_turned_f32 for kernels with short rows, of an image that is copied with its
 * padding around it. The windows of `tile` outputs at a time become rows of a matrix; where products of many short rows
 * are fast, windows are read where they are. b and more may be null. Scratch: tile kh kw c floats, an image with its
 * padding, twice 8 floats and, if plain, a copy of w after them. Not in place.
 */
#include "isa/short_rows.h"
#include "isa/transpose.h"
#include "kernels.h"
#include "kernels/conv/patches.h"

enum { KERNEL_ROWS = 32 }; /* of kernels whose windows are read where they are */

/* an image with its padding, and what its outputs need */
typedef struct {
    float *y;
    const float *image, *w, *b, *more;
    float lo, hi;
    int32_t plain, row; /* are rows of w as long as those of y? floats of a row of the image */
} image_task;

/* the outputs of one image from p on, as many as there are rows: each is a sum over runs of its window */
static void product(const image_task *t, int32_t p, matrix_run *runs, int32_t count, const matrix_shape *rows,
                    const conv2d_shape *s)
{
    const int32_t k = s->kh * s->kw * s->c, first = p * s->o;
    for (int32_t o = 0; o < s->o; o += PANEL) {
        matrix_shape m = *rows;
        m.cols = s->o - o < PANEL ? s->o - o : PANEL;
        m.b_row = t->plain ? s->o : (m.cols + 15) / 16 * 16;
        for (int32_t r = 0; r < count; r++) {
            runs[r].b = t->w + (t->plain ? o : o * k) + r * m.depth * m.b_row;
        }
        const matrix_end end = end_of(t->more ? t->more + first + o : NULL, t->lo, t->hi);
        matrix_ends_f32(t->y + first + o, t->b ? t->b + o : NULL, runs, count, &end, &m);
    }
}

/* windows that are copied, `tile` of them at a time */
static void in_tiles(const image_task *t, int32_t tile, float *windows, const conv2d_shape *s)
{
    const int32_t k = s->kh * s->kw * s->c, count = s->oh * s->ow;
    matrix_run run = {windows, NULL};
    for (int32_t p = 0, rows; p < count; p += rows) {
        rows = count - p < tile ? count - p : tile;
        const matrix_shape m = {rows, 0, k, s->o, 0, k, 1, 0};
        patches(windows, t->image, t->row, p, rows, s);
        product(t, p, &run, 1, &m, s);
    }
}

/* windows of a row of outputs that are read where they are, a run for each row of the kernel */
static void in_rows(const image_task *t, const conv2d_shape *s)
{
    const matrix_shape m = {s->ow, 0, s->kw * s->c, s->o, 0, s->sw * s->c, 1, 0};
    matrix_run runs[KERNEL_ROWS];
    for (int32_t i = 0; i < s->oh; i++) {
        for (int32_t u = 0; u < s->kh; u++) {
            runs[u].a = t->image + (ptrdiff_t)(i * s->sh + u * s->dh) * t->row;
        }
        product(t, i * s->ow, runs, s->kh, &m, s);
    }
}

void conv2d_patches_f32(float *y, const float *x, const float *w, const float *b, const float *more, float lo, float hi,
                        int32_t plain, int32_t tile, const conv2d_shape *s, void *scratch)
{
    const int32_t k = s->kh * s->kw * s->c, outputs = s->oh * s->ow * s->o;
    const padded_size size = padded(s);
    float *windows = scratch, *image = windows + tile * k + RUN_MOST, *turned = image + size.floats;
    clear_f32(image, size.floats);
    if (plain) {
        transpose_f32(turned, s->o, w, k, s->o, k);
    }
    for (int32_t n = 0; n < s->n; n++, x += s->h * s->w * s->c, y += outputs, more = more ? more + outputs : NULL) {
        const image_task t = {y, image, plain ? turned : w, b, more, lo, hi, plain, size.row};
        pad_image(image, x, size, s);
        if (s->dw == 1 && s->kh <= KERNEL_ROWS && short_rows(s->ow, s->o)) {
            in_rows(&t, s);
        } else {
            in_tiles(&t, tile, windows, s);
        }
    }
}
