/* Sums of a group of channels, stored channel by channel as in kernels for small machines, become a block. */
#ifndef INSITU_BLOCK_RUNS_H
#define INSITU_BLOCK_RUNS_H

#include "isa/mantissas.h"

/* Sums of channel k of a group start at x + where[k]. If there are more than `piece` pixels, the next piece of all
 * channels follows. */
typedef struct {
    const int32_t *x;
    int32_t where[BLOCK_GROUP], piece;
} block_runs;

/* whether a sum of n channels is not 0, if all are 0 or -1 */
static inline int32_t block_runs_any(const int32_t *x, const int32_t *where, int32_t pixels, int32_t n)
{
    int32_t any = 0;
    for (int32_t k = 0; k < n; k++) {
        const int32_t *run = x + where[k];
        for (int32_t p = 0; p < pixels; p++) {
            any |= run[p];
        }
    }
    return any;
}

/* some pixels of n channels become 0 */
ALWAYS_INLINE void block_runs_zero(void *m, int32_t at, int32_t step, int32_t pixels, int32_t n, int32_t bytes)
{
    for (int32_t p = 0; p < pixels; p++, at += step) {
        for (int32_t k = 0; k < n; k++) {
            block_put(m, at + k, 0, bytes);
        }
    }
}

/* some pixels of up to four channels, from `at` on; d is positive only in the first way */
ALWAYS_INLINE void block_runs_put(void *m, int32_t at, int32_t step, const int32_t *x, const int32_t *where,
                                  int32_t pixels, int32_t n, int32_t d, int32_t bytes)
{
    if (n >= MANTISSAS && d > 0) {
        mantissas_put(m, at, step, x, where, pixels, d, bytes);
        return;
    }
    for (int32_t p = 0; p < pixels; p++) {
        for (int32_t k = 0; k < n && k < MANTISSAS; k++) {
            const int32_t v = x[where[k] + p];
            block_put(m, at + p * step + k, d > 0 ? block_short(v, d, bytes) : (int32_t)((uint32_t)v << -d), bytes);
        }
    }
}

/* one block: pixels from `first` on of n channels become m[at + p step + k] */
ALWAYS_INLINE void block_store_runs(void *m, int8_t *e, int32_t at, int32_t step, const block_runs *s, int32_t first,
                                    int32_t pixels, int32_t n, int32_t exponent, int32_t bytes)
{
    uint32_t reach = 0;
    int32_t any = 0;
    for (int32_t p = 0; p < pixels; p += s->piece) {
        const int32_t some = pixels - p < s->piece ? pixels - p : s->piece;
        const int32_t *x = s->x + p * BLOCK_GROUP + first;
        reach |= mantissas_reach(x, s->where, n, some);
        any |= reach ? 1 : block_runs_any(x, s->where, some, n);
    }
    const int32_t d = block_normalise(e, reach, any ? exponent : 2 * BLOCK_ZERO, bytes);
    if (d == BLOCK_NOTHING) {
        block_runs_zero(m, at, step, pixels, n, bytes);
        return;
    }
    for (int32_t p = 0; p < pixels; p += s->piece) {
        const int32_t some = pixels - p < s->piece ? pixels - p : s->piece;
        for (int32_t k = 0; k < n; k += MANTISSAS) {
            block_runs_put(m, at + p * step + k, step, s->x + p * BLOCK_GROUP + first, s->where + k, some, n - k, d,
                           bytes);
        }
    }
}

#endif
