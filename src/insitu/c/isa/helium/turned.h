/* turned_sums of turned.h for Helium: eight products per instruction. VLD4 separates four rows; two of the rows of a
 * gradient are every fourth word. The rest is dsp/turned.h.
 */
#ifndef INSITU_ISA_HELIUM_TURNED_H
#define INSITU_ISA_HELIUM_TURNED_H

#include "isa/helium/vectors.h"

/* Two outputs of up to eight words, which stay in registers: the first four and the last four, zero if those would be
 * the same ones. */
typedef struct {
    int32x4_t first, next, first_last, next_last;
} helium_held;

ALWAYS_INLINE helium_held helium_hold(const int32_t *g, int32_t words)
{
    const uint32x4_t step = helium_steps(TURNED);
    const int32_t *last = g + (words - HELIUM_WORDS) * TURNED;
    const mve_pred16_t p = (mve_pred16_t)~vctp32q((uint32_t)(2 * HELIUM_WORDS - words));
    const helium_held held = {vldrwq_gather_shifted_offset_s32(g, step), vldrwq_gather_shifted_offset_s32(g + 1, step),
                              vldrwq_gather_shifted_offset_z_s32(last, step, p),
                              vldrwq_gather_shifted_offset_z_s32(last + 1, step, p)};
    return held;
}

/* dw = sums, or more by them; `row` numbers from output to output */
ALWAYS_INLINE void helium_turned_put(int32_t *dw, int32_t row, const helium_sums *sums, const int more)
{
    UNROLL
    for (int k = 0; k < TURNED; k++) {
        dw[k] = (more ? dw[k] : 0) + sums->first[k];
        dw[row + k] = (more ? dw[row + k] : 0) + sums->next[k];
    }
}

ALWAYS_INLINE void helium_turned_few(int32_t *dw, const int32_t *x, const int32_t *g, const turned_task *t,
                                     const int more)
{
    const int32_t row = t->row / (int32_t)sizeof(int32_t), next = t->words * TURNED;
    const helium_held held = helium_hold(g, t->words);
    const int32_t *last = x + (t->words - HELIUM_WORDS) * TURNED;
    for (int32_t k = t->fours; k > 0; k--, dw += TURNED, x += next, last += next) {
        helium_sums sums = {{0}, {0}};
        helium_add_block(&sums, x, held.first, held.next);
        helium_add_block(&sums, last, held.first_last, held.next_last);
        helium_turned_put(dw, row, &sums, more);
    }
}

/* the same for more words: first the rest of a division by four, then all fours */
ALWAYS_INLINE void helium_turned_many(int32_t *dw, const int32_t *x, const int32_t *g, const turned_task *t,
                                      const int more)
{
    const uint32x4_t step = helium_steps(TURNED);
    const int32_t few = t->words % HELIUM_WORDS, whole = t->words / HELIUM_WORDS;
    const mve_pred16_t p = vctp32q((uint32_t)few);
    for (int32_t k = t->fours; k > 0; k--, dw += TURNED) {
        const int32_t *from = g;
        helium_sums sums = {{0}, {0}};
        if (few) {
            helium_add_block(&sums, x, vldrwq_gather_shifted_offset_z_s32(from, step, p),
                             vldrwq_gather_shifted_offset_z_s32(from + 1, step, p));
            x += few * TURNED;
            from += few * TURNED;
        }
        for (int32_t i = whole; i > 0; i--, x += HELIUM_WORDS * TURNED, from += HELIUM_WORDS * TURNED) {
            helium_add_block(&sums, x, vldrwq_gather_shifted_offset_s32(from, step),
                             vldrwq_gather_shifted_offset_s32(from + 1, step));
        }
        helium_turned_put(dw, t->row / (int32_t)sizeof(int32_t), &sums, more);
    }
}

#define HELIUM_TURNED(name, some, more)                                                                    \
    APART void name(int32_t *dw, const int32_t *x, const int32_t *g, const turned_task *t)                 \
    {                                                                                                      \
        some(dw, x, g, t, more);                                                                           \
    }
HELIUM_TURNED(helium_few, helium_turned_few, 0)
HELIUM_TURNED(helium_few_more, helium_turned_few, 1)
HELIUM_TURNED(helium_many, helium_turned_many, 0)
HELIUM_TURNED(helium_many_more, helium_turned_many, 1)

/* less than a vector takes the other way: bytes beyond the end would be read */
APART void helium_turned_sums(const turned_task *t)
{
    if (t->words < HELIUM_WORDS) {
        arm_turned_sums(t);
        return;
    }
    const int32_t *x = (const int32_t *)(const void *)t->x;
    for (int32_t o = 0; o < 2 * t->twos; o += 2) {
        const int32_t *g = (const int32_t *)(const void *)(t->g + turned_row(o, t->words));
        int32_t *dw = t->dw + o * (t->row / (int32_t)sizeof(int32_t));
        if (t->words <= 2 * HELIUM_WORDS) {
            if (t->more) {
                helium_few_more(dw, x, g, t);
            } else {
                helium_few(dw, x, g, t);
            }
        } else if (t->more) {
            helium_many_more(dw, x, g, t);
        } else {
            helium_many(dw, x, g, t);
        }
    }
}
#undef turned_sums
#define turned_sums helium_turned_sums

#endif
