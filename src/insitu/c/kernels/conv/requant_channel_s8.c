/* y = requantised acc, n pixels of one channel, and a bit of the mask (if not null) where it was not clamped: see
 * channel_place. The bits of a mask must be zero beforehand; y and mask have steps from pixel to pixel.
 */
#include "isa/quick.h"
#include "kernels.h"

void requant_channel_s8(const channel_place *to, const int32_t *acc, int32_t n, const requant *q)
{
    quick_requant way;
    if (quick_of(&way, to->channel, q) && q->lo == -128 && q->hi == 127) {
        if (to->mask) {
            store_masked(*to, acc, n, &way);
        } else {
            store_plain(*to, acc, n, &way);
        }
        return;
    }
    store_any(to, acc, n, q);
}
