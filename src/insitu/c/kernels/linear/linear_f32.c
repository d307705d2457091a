/* y[r,o] = b[o] + sum over i of w[o,i] x[r,i]; b may be null. Every sum is one fma after the other in the order of i,
 * the same on every machine. For few rows (a depth of 0), some outputs are summed side by side; for more, the weights
 * of `panel` outputs and up to `depth` inputs are transposed to w[i,outputs] at a time. Scratch: 4 panel depth bytes.
 * Not in place.
 */
#include "isa/primitives.h"
#include "isa/fma.h"
#include "isa/transpose.h"
#include "kernels.h"

enum { CHAINS = 8 }; /* outputs summed side by side: a sum must wait for itself, its neighbours need not */

/* y[j] = b[j] + sum over i of w[j,i] x[i] for count outputs, in the order of i */
static void some_outputs(float *y, const float *x, const float *w, const float *b, int32_t inputs, const int32_t count)
{
    float acc[CHAINS];
    for (int32_t j = 0; j < count; j++) {
        acc[j] = b ? b[j] : 0.0f;
    }
    for (int32_t i = 0; i < inputs; i++) {
        for (int32_t j = 0; j < count; j++) {
            acc[j] = fma_f32(x[i], w[j * inputs + i], acc[j]);
        }
    }
    for (int32_t j = 0; j < count; j++) {
        y[j] = acc[j];
    }
}

static void few_rows(float *y, const float *x, const float *w, const float *b, const linear_shape *s)
{
    for (int32_t r = 0; r < s->rows; r++, x += s->i, y += s->o) {
        int32_t o = 0;
        for (; o + CHAINS <= s->o; o += CHAINS) {
            some_outputs(y + o, x, w + o * s->i, b ? b + o : NULL, s->i, CHAINS);
        }
        if (o < s->o) {
            some_outputs(y + o, x, w + o * s->i, b ? b + o : NULL, s->i, s->o - o);
        }
    }
}

void linear_f32(float *y, const float *x, const float *w, const float *b, int32_t panel, int32_t depth,
                const linear_shape *s, void *scratch)
{
    if (depth == 0) {
        few_rows(y, x, w, b, s);
        return;
    }
    for (int32_t o = 0; o < s->o; o += panel) {
        const int32_t cols = s->o - o < panel ? s->o - o : panel;
        matrix_shape m = {s->rows, cols, 0, s->o, 0, s->i, 1, cols};
        const float *start = b ? b + o : NULL;
        for (int32_t i = 0; i < s->i; i += m.depth) {
            m.depth = s->i - i < depth ? s->i - i : depth;
            transpose_f32(scratch, cols, w + o * s->i + i, s->i, cols, m.depth);
            matrix_f32(y + o, start, x + i, scratch, &m);
            start = y + o;
            m.start_row = s->o;
        }
    }
}
