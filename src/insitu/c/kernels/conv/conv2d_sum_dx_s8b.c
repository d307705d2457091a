/* The contribution of the gradient of n outputs of a 1x1 convolution, from `first` on, to sums for conv2d_store_dx_s8b:
 * acc[row][channel][pixel] += sum over these o of p[row][pixel][o] w[o][channel]. w, fixed and share are those of these
 * outputs, and so are g, which has `step` numbers per pixel, and own, its exponents; ge are those of all outputs. The
 * first call clears acc; `rows` rows of pixels at a time. Scratch: 512 bytes (sums), 4 n int16 (weights), n int16 for
 * each pixel, rounded up to a multiple of four.
 */
#include "kernels.h"
#include "kernels/conv/block_deep.h"

void conv2d_sum_dx_s8b(int32_t *acc, const int8_t *g, const int8_t *own, const int8_t *ge, const int8_t *w,
                       const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share, int32_t drop,
                       int32_t first, int32_t n, int32_t rows, int32_t step, const conv2d_shape *s, void *scratch)
{
    const block_some from = {.g = g, .own = own, .all = ge, .step = step, .owned = block_groups(step)};
    const block_weights weights = {w, fixed, which, count};
    block_sum_dx(acc, &from, &weights, share, drop, first, n, rows, s, scratch, 1);
}
