/* What the updates of integer parameters by integer gradients share: m 2^e scale, one exponent in all. The meaning is in
 * ops/block_update.py.
 */
#ifndef INSITU_BLOCK_UPDATE_H
#define INSITU_BLOCK_UPDATE_H

#include "block_rows.h"
#include "mathf.h"
#include "update.h"

static inline int32_t block_bit_length64(uint64_t n)
{
    return n >> 32 ? 32 + block_bit_length((uint32_t)(n >> 32)) : block_bit_length((uint32_t)n);
}

/* the norm: squares of the upper 15 bits, added as integers */
static inline float block_norm(const int32_t *m, int32_t e, float scale, int32_t n)
{
    uint32_t most = 0;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t size = block_size_of(m[i]);
        most = size > most ? size : most;
    }
    const int32_t length = block_bit_length(most), d = length > 15 ? length - 15 : 0;
    uint64_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t size = block_size_of(m[i]) >> d;
        total += size * size;
    }
    const int32_t over = block_bit_length64(total) - 24, z = over > 0 ? over + (over & 1) : 0;
    return insitu_sqrtf((float)(int32_t)(total >> z)) * block_power(z / 2 + d + e) * scale;
}

/* clip_factor of such a gradient */
static inline float block_factor(const int32_t *m, int32_t e, float scale, float rate, float clip, int32_t *count,
                                 int32_t n)
{
    if (rate == 0.0f || !(rate - rate == 0.0f)) {
        return 0.0f;
    }
    const float norm = block_norm(m, e, scale, n);
    if (e == BLOCK_MOST || !(norm - norm == 0.0f)) {
        count[0]++;
        return 0.0f;
    }
    if (clip == 0.0f || !(norm > clip)) {
        return 1.0f;
    }
    count[1]++;
    return clip / norm;
}

/* a float times 2^e as a whole number of 24 bits and how far a product with it is shifted to the right; bits of an
 * endless one are not shifted at all but end at the limit */
typedef struct {
    int32_t whole, shift, endless;
} block_multiplier;

static inline block_multiplier block_multiplier_of(float by, int32_t e)
{
    block_float v;
    v.f = by;
    const int32_t exponent = (int32_t)(v.u >> 23 & 255u);
    const block_multiplier found = {exponent ? block_whole(v.u) : 0, 150 - exponent - e, exponent == 255};
    return found;
}

/* round(x * by), halves up, at most limit either way */
static inline int32_t block_times(int32_t x, const block_multiplier *by, int32_t limit)
{
    const int64_t product = (int64_t)x * by->whole;
    int64_t y = product > limit ? limit : product < -limit ? -limit : product;
    if (by->endless) {
        return product > 0 ? limit : product < 0 ? -limit : 0;
    }
    if (by->shift > 0) {
        y = ((product >> ((by->shift < 62 ? by->shift : 62) - 1)) + 1) >> 1;
    } else {
        y *= (int64_t)1 << (by->shift > -31 ? -by->shift : 31);
    }
    return (int32_t)(y > limit ? limit : y < -limit ? -limit : y);
}

#endif
