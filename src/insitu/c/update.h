/* What the updates of integer parameters share: their options, and the walk over runs of one channel. */
#ifndef INSITU_UPDATE_H
#define INSITU_UPDATE_H

#include "kernels.h"
#include "mathf.h"

/* From element i on, `length` elements lie in one run: they share a channel, or have one channel after the other. */
typedef struct {
    int32_t length;
    const float *channel;
} update_run;

static inline update_run run_at(const integer_update *u, int32_t i, int32_t end)
{
    const int32_t at = u->inner == 1 ? i % u->channels : i % u->inner;
    const int32_t rest = (u->inner == 1 ? u->channels : u->inner) - at;
    const update_run run = {rest < end - i ? rest : end - i,
                            u->channel + (u->inner == 1 ? at : i / u->inner % u->channels)};
    return run;
}

static inline int32_t clamp_s32(int32_t x, int32_t limit)
{
    x = x < -limit ? -limit : x;
    return x > limit ? limit : x;
}

#endif
