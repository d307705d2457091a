/* to[i] = a number of `bits` bits, 1 to 32: stored one after the other, the lowest bit first; the highest is the sign.
 * Not in place.
 */
#include "kernels.h"

void unpack_bits(int32_t *to, const uint8_t *from, int32_t bits, int32_t n)
{
    for (int32_t i = 0, at = 0; i < n; i++) {
        uint32_t word = 0;
        for (int32_t k = 0; k < bits; k++, at++) {
            word |= ((uint32_t)from[at >> 3] >> (at & 7) & 1u) << k;
        }
        to[i] = (int32_t)(word << (32 - bits)) >> (32 - bits);
    }
}
