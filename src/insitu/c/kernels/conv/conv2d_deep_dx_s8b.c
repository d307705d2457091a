/* conv2d_pairs_dx_s8b with little scratch: `depth` outputs (a multiple of 16) of `rows` rows of pixels at a time.
 * Scratch: 512 bytes (sums), 4 depth int16 (weights), depth int16 for each pixel, rounded up to a multiple of four, an
 * int32 per pixel and channel of the rows. `share` NULL: scratch begins with those of `source`, o int16, rounded up to
 * a multiple of eight. Not in place.
 */
#include <stddef.h>

#include "kernels.h"
#include "kernels/conv/block_deep.h"
#include "kernels/conv/block_shares.h"

void conv2d_deep_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                        const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share,
                        const weight_scales *source, int32_t k, int32_t drop, int32_t rows, int32_t depth,
                        const conv2d_shape *s, void *scratch)
{
    const int16_t *shares = block_shares(share, source, k, s->o, &scratch);
    const int32_t og = block_groups(s->o), lines = s->n * s->h, pixels = (rows * s->w + 3) / 4 * 4;
    int32_t *acc = (int32_t *)(void *)((unsigned char *)scratch + 512 + 2 * depth * (4 + pixels));
    conv2d_shape band = *s;
    band.n = 1;
    for (int32_t line = 0; line < lines; line += rows) {
        const int8_t *e = ge + line * og;
        band.h = lines - line < rows ? lines - line : rows;
        for (int32_t o = 0; o < s->o; o += depth) {
            conv2d_sum_dx_s8b(acc, g + line * s->w * s->o + o, e + o / BLOCK_GROUP, e,
                              w + o * (count ? count : s->c), which ? fixed + o * (s->c - count) : fixed, which, count,
                              shares + o, drop, o, s->o - o < depth ? s->o - o : depth, rows, s->o, &band, scratch);
        }
        conv2d_store_dx_s8b(dx + line * s->w * s->c, dxe + line * block_groups(s->c), acc, e, og, k + drop, band.h,
                            s->w, s->c, NULL);
    }
}
