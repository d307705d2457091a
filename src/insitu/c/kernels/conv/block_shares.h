/* The shares of all outputs if there is no table of them: at the start of the scratch, which then begins after them, at
 * a multiple of 16 bytes.
 */
#ifndef INSITU_BLOCK_SHARES_H
#define INSITU_BLOCK_SHARES_H

#include "kernels.h"
#include "numbers/scales.h"

static inline const int16_t *block_shares(const int16_t *share, const weight_scales *source, int32_t k, int32_t o,
                                          void **scratch)
{
    int16_t *found = (int16_t *)*scratch;
    if (share) {
        return share;
    }
    channel_shares_s16(found, source, k, 0, o);
    *scratch = found + ((o + 7) & ~7);
    return found;
}

#endif
