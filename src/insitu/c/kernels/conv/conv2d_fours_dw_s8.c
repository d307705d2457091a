/* dw[o,u,v,k] = scale * sum over n,i,j of g[n,i,j,o] (x[.., channels[k]] - zero), the sum one chain of multiply-adds over
 * n, then i, then j, as in conv2d_dw_s8 without groups. `channels` may be null: the first `count`.
 * The pixels that a tap of the window sees inside x, `piece` at a time, are laid out in panels of four columns, their
 * gradients in panels of four outputs, sixteen outputs at a time.
 * Scratch, with count rounded up to a multiple of four: piece (2 + 16 + count) words. Not in place.
 */
#include "isa/fma.h"
#include "isa/fours.h"
#include "kernels.h"
#include "kernels/spans.h"

enum { OUTPUTS = 16 };

/* pixels that a tap sees: where they lie in x, and their gradients in g */
typedef struct {
    int32_t *x, *g, n;
} seen;

/* up to four columns of x as floats, minus the zero point; missing ones repeat the last */
static void input_columns(float *to, const int8_t *x, const int32_t *place, const int32_t *channels, int32_t k,
                          int32_t cols, int32_t zero, int32_t n)
{
    const int8_t *from[FOUR];
    for (int32_t j = 0; j < FOUR; j++) {
        const int32_t which = k + (j < cols ? j : cols - 1);
        from[j] = x + (channels ? channels[which] : which);
    }
    const int8_t *a = from[0], *b = from[1], *c = from[2], *d = from[3];
    for (; n > 0; n--, to += FOUR) {
        const int32_t at = *place++;
        to[0] = (float)(a[at] - zero);
        to[1] = (float)(b[at] - zero);
        to[2] = (float)(c[at] - zero);
        to[3] = (float)(d[at] - zero);
    }
}

/* up to four columns of g in the same way */
static void gradient_columns(float *to, const float *g, const int32_t *place, int32_t cols, int32_t n)
{
    const int32_t last = cols < FOUR ? cols - 1 : FOUR - 1, b = last < 1 ? last : 1, c = last < 2 ? last : 2;
    for (; n > 0; n--, to += FOUR) {
        const float *from = g + *place++;
        const float w = from[0], x = from[b], y = from[c], z = from[last];
        to[0] = w;
        to[1] = x;
        to[2] = y;
        to[3] = z;
    }
}

/* the contribution of these pixels to dw of one tap; rows of dw are `row` floats apart */
static void add_products(float *dw, const float *g, const int8_t *x, const int32_t *channels, int32_t count,
                         int32_t zero, const seen *p, int32_t o, int32_t row, float *panels)
{
    float *inputs = panels + OUTPUTS * p->n;
    for (int32_t k = 0; k < count; k += FOUR) {
        input_columns(inputs + k * p->n, x, p->x, channels, k, count - k, zero, p->n);
    }
    for (int32_t first = 0; first < o; first += OUTPUTS) {
        const int32_t outs = o - first < OUTPUTS ? o - first : OUTPUTS;
        for (int32_t j = 0; j < outs; j += FOUR) {
            gradient_columns(panels + j * p->n, g + first + j, p->g, outs - j, p->n);
        }
        for (int32_t k = 0; k < count; k += FOUR) {
            const fours_task t = {panels, inputs + k * p->n, dw + first * row + k, row * (int32_t)sizeof(float), p->n, 0,
                                  1};
            fours_rows(t, outs, count - k < FOUR ? count - k : FOUR);
        }
    }
}

void conv2d_fours_dw_s8(float *dw, const float *g, const int8_t *x, const int32_t *channels, int32_t count,
                        int32_t piece, float scale, int32_t zero, const conv2d_shape *s, void *scratch)
{
    const int32_t taps = s->kh * s->kw;
    seen p = {(int32_t *)scratch, (int32_t *)scratch + piece, 0};
    float *panels = (float *)scratch + 2 * piece;
    clear_f32(dw, s->o * taps * count);
    for (int32_t tap = 0; tap < taps; tap++) {
        const span t = span_of(s, tap % s->kw);
        for (int32_t line = 0; line < s->n * s->oh; line++) {
            const int32_t r = row_under(s, line % s->oh, tap / s->kw), at = (line / s->oh * s->h + r) * s->w;
            for (int32_t j = t.j; r >= 0 && j < t.j + t.count; j++) {
                p.x[p.n] = (at + j * s->sw + t.tap * s->dw - s->pl) * s->c;
                p.g[p.n++] = (line * s->ow + j) * s->o;
                if (p.n == piece) {
                    add_products(dw + tap * count, g, x, channels, count, zero, &p, s->o, taps * count, panels);
                    p.n = 0;
                }
            }
        }
        if (p.n) {
            add_products(dw + tap * count, g, x, channels, count, zero, &p, s->o, taps * count, panels);
            p.n = 0;
        }
    }
    scale_f32(dw, scale, s->o * taps * count);
}
