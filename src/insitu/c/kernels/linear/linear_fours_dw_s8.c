/* dw[o,k] = scale * sum over r of g[r,o] (x[r, channels[k]] - zero), the sum one chain of multiply-adds over r, as in
 * linear_dw_s8; also the gradient of a 1x1 convolution with stride one. `channels` may be null: the first `count`.
 * Inputs of `piece` rows at a time are laid out in panels of four columns, gradients in panels of four outputs.
 * Scratch, with count rounded up to a multiple of four: piece count floats, then 4 piece floats. Not in place.
 */
#include "isa/fma.h"
#include "isa/fours.h"
#include "kernels.h"

/* up to four columns of x as floats, minus the zero point */
static void input_columns(float *to, const int8_t *x, const int32_t *channels, int32_t k, int32_t cols, int32_t row,
                          int32_t zero, int32_t n)
{
    const int32_t at[FOUR] = {channels ? channels[k] : k, cols > 1 ? (channels ? channels[k + 1] : k + 1) : 0,
                              cols > 2 ? (channels ? channels[k + 2] : k + 2) : 0,
                              cols > 3 ? (channels ? channels[k + 3] : k + 3) : 0};
    for (int32_t r = 0; r < n; r++, x += row, to += FOUR) {
        to[0] = (float)(x[at[0]] - zero);
        to[1] = (float)(x[at[1]] - zero);
        to[2] = (float)(x[at[2]] - zero);
        to[3] = (float)(x[at[3]] - zero);
    }
}

static void copy_fours(float *to, const float *g, int32_t row, int32_t n)
{
    for (; n > 0; n--, g += row, to += FOUR) {
        const float a = g[0], b = g[1], c = g[2], d = g[3];
        to[0] = a;
        to[1] = b;
        to[2] = c;
        to[3] = d;
    }
}

/* up to four columns of g */
static void gradient_columns(float *to, const float *g, int32_t cols, int32_t row, int32_t n)
{
    if (cols >= FOUR) {
        copy_fours(to, g, row, n);
        return;
    }
    for (int32_t r = 0; r < n; r++, g += row, to += FOUR) {
        to[0] = g[0];
        to[1] = g[cols > 1 ? 1 : 0];
        to[2] = g[cols > 2 ? 2 : 0];
        to[3] = g[cols > 3 ? 3 : 0];
    }
}

void linear_fours_dw_s8(float *dw, const float *g, const int8_t *x, const int32_t *channels, int32_t count,
                        int32_t piece, float scale, int32_t zero, const linear_shape *s, void *scratch)
{
    float *inputs = (float *)scratch, *gradients = inputs + piece * ((count + 3) / FOUR * FOUR);
    for (int32_t r = 0; r < s->rows; r += piece) {
        const int32_t n = s->rows - r < piece ? s->rows - r : piece;
        for (int32_t k = 0; k < count; k += FOUR) {
            input_columns(inputs + k * piece, x + r * s->i, channels, k, count - k, s->i, zero, n);
        }
        for (int32_t o = 0; o < s->o; o += FOUR) {
            const int32_t outs = s->o - o < FOUR ? s->o - o : FOUR;
            gradient_columns(gradients, g + r * s->o + o, outs, s->o, n);
            for (int32_t k = 0; k < count; k += FOUR) {
                const fours_task t = {gradients, inputs + k * piece, dw + o * count + k,
                                      count * (int32_t)sizeof(float), n, 0, r > 0};
                fours_rows(t, outs, count - k < FOUR ? count - k : FOUR);
            }
        }
    }
    scale_f32(dw, scale, s->o * count);
}
