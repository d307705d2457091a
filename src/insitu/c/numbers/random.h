/* Random numbers as a function of where they are used: see ops/_random.py, which computes the same integers. */
#ifndef INSITU_RANDOM_H
#define INSITU_RANDOM_H

#include <stdint.h>

static inline uint32_t random_mix(uint32_t h)
{
    h = (h ^ (h >> 16)) * 0x7feb352du;
    h = (h ^ (h >> 15)) * 0x846ca68bu;
    return h ^ (h >> 16);
}

/* what all numbers of one counter and stream share */
static inline uint32_t random_key(int32_t counter, int32_t stream)
{
    return random_mix(random_mix((uint32_t)counter) + (uint32_t)stream * 0x9e3779b9u);
}

static inline uint32_t random_at(uint32_t key, int32_t index)
{
    return random_mix((uint32_t)index * 0x9e3779b9u + key);
}

#endif
