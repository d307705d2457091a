/* to[i] = s / 2^(k - 15) of channel first + i, an integer, halves up: below 2^15 with the k that belongs to s. */
#include "kernels.h"
#include "numbers/scale_bits.h"

void channel_shares_s16(int16_t *to, const weight_scales *s, int32_t k, int32_t first, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const uint32_t bits = scale_bits(s, first + i);
        const int32_t d = 135 - (int32_t)(bits >> 23) + k, right = d < 1 ? 1 : d > 31 ? 31 : d;
        to[i] = (int16_t)((scale_mantissa(bits) + (1u << (right - 1))) >> right);
    }
}
