/* What tiles of one layer share, prepared once for all of them: the form that a machine likes of b, c and q of isa/tile.h.
 * A machine without such a form has none ready.
 */
#ifndef INSITU_ISA_TILE_READY_H
#define INSITU_ISA_TILE_READY_H

#include <stdint.h>

#include "isa/align.h"
#include "isa/machine.h"

/* sixteen outputs: see isa/avx512/fours.h */
typedef struct {
    int64_t even[8], odd[8];
    int32_t start[16], m2[16], right[16], sign[16];
    int32_t possible, away, lo, hi, unused[12];
} tile_outputs;

/* the first `blocks` times sixteen outputs */
#if INSITU_AVX512
enum { TILE_READY = 16 };
typedef struct {
    INSITU_ALIGNED tile_outputs at[TILE_READY];
    int32_t blocks;
} tile_ready;
#else
typedef struct {
    int32_t blocks;
} tile_ready;
#endif

#endif
