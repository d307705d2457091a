/* Counters of events in training: they stop at the largest number, since a device may run for years. */
#ifndef INSITU_COUNT_H
#define INSITU_COUNT_H

#include <stdint.h>

/* *count += more, more >= 0 */
static inline void count_more(int32_t *count, int32_t more)
{
    *count = *count > INT32_MAX - more ? INT32_MAX : *count + more;
}

#endif
