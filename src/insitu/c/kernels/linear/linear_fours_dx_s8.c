/* dx[r,i] = sum over o of g[r,o] w[o,i] with w = scale[o] * the integer weight: the scale goes into g. One chain of
 * multiply-adds over o, as in linear_dx_s8; also for the pixels of a 1x1 convolution with stride one.
 * `depth` outputs of some rows (`tile`, a multiple of four) are scaled and laid out in panels, then meet four columns of
 * weights at a time; a chain continues where the previous outputs left it.
 * `scale` NULL: scales are those of `source`.
 * `where` NULL: w is the whole weight. Else w has `count` of its columns and fixed the others: column i is where[i] of w
 * or, if that is negative, -1 - where[i] of fixed.
 * Scratch: 256 floats (a table of all bytes), tile depth floats, 4 depth floats; with parts, 4 depth bytes. Not in place.
 */
#include "isa/fours.h"
#include "kernels.h"

/* n numbers of four rows of g, scaled, side by side; missing rows repeat the last */
static void scaled_rows(float *to, const float *g, const float *scale, int32_t rows, int32_t row, int32_t n)
{
    if (rows >= FOUR) {
        fours_scaled(to, g, row, scale, n);
        return;
    }
    const float *a = g, *b = g + (rows > 1 ? row : 0), *c = g + (rows > 2 ? 2 : rows - 1) * row;
    const float *d = g + (rows > 3 ? 3 : rows - 1) * row;
    for (int32_t o = 0; o < n; o++, to += FOUR) {
        const float s = scale[o];
        to[0] = a[o] * s;
        to[1] = b[o] * s;
        to[2] = c[o] * s;
        to[3] = d[o] * s;
    }
}

typedef struct {
    const int8_t *w, *fixed;
    const int32_t *where;
    int32_t count;
} weight_parts;

/* rows o..o+n-1 of up to four columns, side by side */
static void put_together(int8_t *to, const weight_parts *parts, int32_t i, int32_t cols, int32_t row, int32_t o, int32_t n)
{
    for (int32_t j = 0; j < cols; j++) {
        const int32_t from = parts->where[i + j], step = from >= 0 ? parts->count : row - parts->count;
        const int8_t *x = (from >= 0 ? parts->w + from : parts->fixed + (-1 - from)) + o * step;
        for (int32_t k = 0; k < n; k++, x += step) {
            to[k * FOUR + j] = *x;
        }
    }
}

/* whether four columns are neighbours in one of the parts */
static int side_by_side(const int32_t *where)
{
    const int32_t next = where[0] < 0 ? -1 : 1;
    return where[1] == where[0] + next && where[2] == where[0] + 2 * next && where[3] == where[0] + 3 * next;
}

/* up to four columns of weights, from i on, as floats; `together` has room for 4 n bytes if there are parts */
static void weight_columns(float *to, const weight_parts *parts, int32_t i, int32_t cols, int32_t row, int32_t o,
                           int32_t n, const float *table, int8_t *together)
{
    const int8_t *w = parts->w + o * row + i;
    if (parts->where && cols == FOUR && side_by_side(parts->where + i)) {
        const int32_t from = parts->where[i];
        row = from >= 0 ? parts->count : row - parts->count;
        w = (from >= 0 ? parts->w + from : parts->fixed + (-1 - from)) + o * row;
    } else if (parts->where) {
        put_together(together, parts, i, cols, row, o, n);
        w = together;
        row = FOUR;
    }
    if (cols == FOUR) {
        fours_floats(to, w, row, n, table);
        return;
    }
    for (int32_t k = 0; k < n; k++, w += row, to += FOUR) {
        for (int32_t j = 0; j < FOUR; j++) {
            to[j] = j < cols ? (float)w[j] : 0.0f;
        }
    }
}

typedef struct {
    float *table, *rows, *weights;
    int8_t *together;
} room;

/* the contribution of outputs o..o+n-1, whose scales these are, to `count` rows */
static void add_outputs(float *dx, const float *g, const weight_parts *parts, const float *scale, int32_t count,
                        int32_t o, int32_t n, const linear_shape *s, const room *at)
{
    for (int32_t p = 0; p < count; p += FOUR) {
        scaled_rows(at->rows + p * n, g + p * s->o + o, scale, count - p, s->o, n);
    }
    for (int32_t i = 0; i < s->i; i += FOUR) {
        const int32_t cols = s->i - i < FOUR ? s->i - i : FOUR;
        const fours_task t = {at->rows, at->weights, dx + i, s->i * (int32_t)sizeof(float), n, 0, o > 0};
        weight_columns(at->weights, parts, i, cols, s->i, o, n, at->table, at->together);
        fours_rows(t, count, cols);
    }
}

void linear_fours_dx_s8(float *dx, const float *g, const int8_t *w, const int8_t *fixed, const int32_t *where,
                        int32_t count, const float *scale, const weight_scales *source, int32_t tile, int32_t depth,
                        const linear_shape *s, void *scratch)
{
    const weight_parts parts = {w, fixed, where, count};
    float *table = (float *)scratch, *rows = table + FOUR_TABLE, *weights = rows + tile * depth;
    const room at = {table, rows, weights, (int8_t *)(void *)(weights + FOUR * depth)};
    fours_table(table);
    for (int32_t r = 0; r < s->rows; r += tile) {
        const int32_t some = s->rows - r < tile ? s->rows - r : tile;
        for (int32_t o = 0; o < s->o; o += depth) {
            const int32_t n = s->o - o < depth ? s->o - o : depth;
            if (!scale) { /* until rows are scaled, the space for weights is free */
                channel_scales_f32(weights, source, 0.0f, 0, o, n);
            }
            add_outputs(dx + r * s->i, g + r * s->o, &parts, scale ? scale + o : weights, some, o, n, s, &at);
        }
    }
}
