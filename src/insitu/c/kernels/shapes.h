/* Sizes for kernels, one struct per family of ops. Python fills them in. */
#ifndef INSITU_SHAPES_H
#define INSITU_SHAPES_H

#include <stdint.h>

/* a convolution or a pool: x[n,h,w,c], y[n,oh,ow,o]; kernel, stride, dilation, padding above and to the left */
typedef struct {
    int32_t n, h, w, c, oh, ow, o;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl, groups;
} conv2d_shape;

/* x[rows,i], w[o,i], y[rows,o] */
typedef struct {
    int32_t rows, i, o;
} linear_shape;

/* y[t] = a[ia[t]] b[ib[t]] for t < batch, with a[m,k], b[k,n]; a null index is the identity */
typedef struct {
    int32_t batch, m, k, n;
    const int32_t *ia, *ib;
} matmul_shape;

/* y[o,i] = reduction over r of x[outer(o) + step(r) + i]; null tables mean one contiguous block of
 * reduced axes: outer(o) = o * reduce * inner, step(r) = r * inner */
typedef struct {
    int32_t outer, reduce, inner;
    const int32_t *outer_at, *reduce_at;
} reduce_shape;

/* Two operands that broadcast: y is `rows` rows of `n` elements, and an operand moves by 1 (a_step, b_step) or not
 * at all (0) along a row. The rows are the points of size[0] x ... x size[rank-1], the last fastest; a[d], b[d] are
 * the steps of the operands in elements, 0 if one is repeated. Equal neighbours are merged at compile time: two
 * operands of one shape are a single row.
 */
typedef struct {
    int32_t n, a_step, b_step, rows, rank;
    int32_t size[5], a[5], b[5];
} pair_shape;

/* A box of elements copied from one strided place to another. `item` bytes are contiguous in both; steps and
 * offsets are in bytes.
 */
typedef struct {
    int32_t item, rank, y_offset, x_offset;
    int32_t size[6], y[6], x[6];
} box_shape;

/* the taps first..last-1 of a window that starts at `start` that are on 0..size-1; an empty range is first == last */
typedef struct {
    int32_t first, last;
} tap_range;

static inline tap_range taps_inside(int32_t start, int32_t kernel, int32_t dilation, int32_t size)
{
    const int32_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int32_t end = start + (kernel - 1) * dilation < size ? kernel : (size - start + dilation - 1) / dilation;
    const tap_range found = {first < kernel ? first : kernel, end > first ? end : first < kernel ? first : kernel};
    return found;
}

#endif
