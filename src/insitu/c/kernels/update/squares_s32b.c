/* sum + the square of the norm of m 2^e scale, one group of channels after the other; infinite if a group is. The
 * norm of a group: squares of the upper 15 bits, added as integers, and a 24-bit square root. Element i belongs to
 * channel i / inner % channels.
 */
#include "kernels/update/block_update.h"

static int32_t bit_length64(uint64_t n)
{
    return n >> 32 ? 32 + bit_length((uint32_t)(n >> 32)) : bit_length((uint32_t)n);
}

/* of runs of n numbers, one in each row, up to the end */
static float norm(const int32_t *m, const int32_t *end, int32_t row, int32_t n, int32_t e, float scale)
{
    const int32_t bits = bit_length(step_sizes(m, end, row, n)), d = bits > 15 ? bits - 15 : 0;
    const uint64_t total = step_squares(m, end, row, n, d);
    const int32_t over = bit_length64(total) - 24, z = over > 0 ? over + (over & 1) : 0;
    return insitu_sqrtf((float)(int32_t)(total >> z)) * block_power(z / 2 + d + e) * scale;
}

float squares_s32b(float sum, const block_gradient *g)
{
    for (int32_t k = 0; k < g->channels; k += BLOCK_GROUP) {
        const int32_t n = block_width(k, g->channels) * g->inner, e = g->e[k / BLOCK_GROUP];
        const float found = norm(g->m + k * g->inner, g->m + g->n, g->channels * g->inner, n, e, g->scale);
        sum += e == BLOCK_MOST ? block_power(BLOCK_MOST + 1) : found * found;
    }
    return sum;
}
