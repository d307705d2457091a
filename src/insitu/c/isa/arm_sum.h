/* sum.h for Cortex-M with the DSP extension: one SMLAD takes both terms of an element. */
#ifndef INSITU_ISA_ARM_SUM_H
#define INSITU_ISA_ARM_SUM_H

#include "isa/arm_dsp.h"
#include "isa/inline.h"

/* both multipliers, and what all elements have in common, where that fits */
typedef struct {
    uint32_t m;
    int32_t add, shift;
} sum_way;

static inline int sum_way_of(sum_way *way, const sum_quant *q)
{
    way->m = ((uint32_t)q->ma & 0xffffu) | (uint32_t)q->mb << 16;
    way->shift = q->shift;
    if (q->shift > 20 || q->lo != -128 || q->hi != 127) {
        return 0;
    }
    way->add = (1 << (q->shift - 1)) + q->y_zero * (1 << q->shift) - q->ma * q->a_zero - q->mb * q->b_zero;
    return 1;
}

/* four elements, before the clamp */
ALWAYS_INLINE void sum_four(int32_t *v, const int8_t *a, const int8_t *b, sum_way way)
{
    const uint32_t x = word_at(a), z = word_at(b);
    const uint32_t xe = widen_even(0, x), xo = widen_odd(0, x), ze = widen_even(0, z), zo = widen_odd(0, z);
    v[0] = multiply_pairs(low_halves(xe, ze), way.m, way.add) >> way.shift;
    v[1] = multiply_pairs(low_halves(xo, zo), way.m, way.add) >> way.shift;
    v[2] = multiply_pairs(high_halves(xe, ze), way.m, way.add) >> way.shift;
    v[3] = multiply_pairs(high_halves(xo, zo), way.m, way.add) >> way.shift;
}

static inline void arm_sum_run(int8_t *y, const int8_t *a, const int8_t *b, int32_t n, const sum_quant *q)
{
    sum_way way;
    int32_t i = 0, v[4];
    for (const int quick = sum_way_of(&way, q); quick && i + 4 <= n; i += 4) {
        sum_four(v, a + i, b + i, way);
        y[i] = saturate8(v[0]);
        y[i + 1] = saturate8(v[1]);
        y[i + 2] = saturate8(v[2]);
        y[i + 3] = saturate8(v[3]);
    }
    scalar_sum_run(y + i, a + i, b + i, n - i, q);
}

/* four elements of a byte of the mask */
ALWAYS_INLINE uint32_t sum_four_masked(int8_t *y, const int8_t *a, const int8_t *b, sum_way way, uint32_t bits, int at)
{
    int32_t v[4];
    sum_four(v, a, b, way);
    UNROLL
    for (int i = 0; i < 4; i++) {
        const int32_t within = saturate8(v[i]);
        y[i] = (int8_t)within;
        bits = v[i] == within ? bits | 1u << (at + i) : bits;
    }
    return bits;
}

static inline void arm_sum_masked(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, int32_t n,
                                  const sum_quant *q)
{
    sum_way way;
    int32_t i = 0;
    for (const int quick = sum_way_of(&way, q); quick && i + 8 <= n; i += 8) {
        const uint32_t low = sum_four_masked(y + i, a + i, b + i, way, 0, 0);
        *mask++ = (uint8_t)sum_four_masked(y + i + 4, a + i + 4, b + i + 4, way, low, 4);
    }
    scalar_sum_masked(y + i, mask, a + i, b + i, n - i, q);
}
#define sum_run arm_sum_run
#define sum_masked arm_sum_masked

#endif
