/* dx[r,i] = sum over o of g[r,o] w[o,i] with w = scale[o] * the integer weight: the scale goes into g. One chain of
 * multiply-adds over o, as in linear_dx_s8; also what a 1x1 convolution that moves by one does to its pixels.
 * Some rows (`tile`, a multiple of four) are scaled and laid out in panels, then meet four columns of weights at a time.
 * Scratch: 256 floats (a table of all bytes), tile o floats, 4 o floats. Not in place.
 */
#include "isa/fours.h"
#include "kernels.h"

/* four rows of g, scaled, side by side; rows that are not there are the last one again */
static void scaled_rows(float *to, const float *g, const float *scale, int32_t rows, int32_t n)
{
    if (rows >= FOUR) {
        fours_scaled(to, g, n, scale, n);
        return;
    }
    const float *a = g, *b = g + (rows > 1 ? n : 0), *c = g + (rows > 2 ? 2 : rows - 1) * n;
    const float *d = g + (rows > 3 ? 3 : rows - 1) * n;
    for (int32_t o = 0; o < n; o++, to += FOUR) {
        const float s = scale[o];
        to[0] = a[o] * s;
        to[1] = b[o] * s;
        to[2] = c[o] * s;
        to[3] = d[o] * s;
    }
}

/* up to four columns of weights as floats */
static void weight_columns(float *to, const int8_t *w, int32_t cols, int32_t row, int32_t n, const float *table)
{
    if (cols == FOUR) {
        fours_floats(to, w, row, n, table);
        return;
    }
    for (int32_t o = 0; o < n; o++, w += row, to += FOUR) {
        for (int32_t j = 0; j < FOUR; j++) {
            to[j] = j < cols ? (float)w[j] : 0.0f;
        }
    }
}

void linear_fours_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, int32_t tile,
                        const linear_shape *s, void *scratch)
{
    float *table = (float *)scratch, *rows = table + FOUR_TABLE, *weights = rows + tile * s->o;
    fours_table(table);
    for (int32_t r = 0; r < s->rows; r += tile, dx += tile * s->i) {
        const int32_t count = s->rows - r < tile ? s->rows - r : tile;
        for (int32_t p = 0; p < count; p += FOUR) {
            scaled_rows(rows + p * s->o, g + (r + p) * s->o, scale, count - p, s->o);
        }
        for (int32_t i = 0; i < s->i; i += FOUR) {
            const int32_t cols = s->i - i < FOUR ? s->i - i : FOUR;
            const fours_task t = {rows, weights, dx + i, s->i * (int32_t)sizeof(float), s->o, 0, 0};
            weight_columns(weights, w + i, cols, s->i, s->o, table);
            fours_rows(t, count, cols);
        }
    }
}
