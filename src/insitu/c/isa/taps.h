/* The definition of the functions of taps.h, and the same on vectors of channels. `wide` is 0 if the operand that may
 * be s8 is, 1 for floats, TAPS_END for floats and a matrix_end. */
#ifndef INSITU_ISA_TAPS_H
#define INSITU_ISA_TAPS_H

#include "isa/fma.h"
#include "isa/lanes.h"
#include "kernels/depthwise/taps.h"
#include "kernels/linear/products.h"

enum { TAPS_END = 2 };

static inline int tap_inside(const tap *k, int32_t p, const tap_row *t)
{
    const int32_t q = p * t->step + k->at;
    return q >= 0 && q < t->width;
}

#ifdef INSITU_LANES
#include "isa/lanes/taps.h"
#else

static inline float tap_ended(float sum, const matrix_end *end, int32_t at)
{
    const float all = end->more ? sum + end->more[at] : sum, low = all > end->lo ? all : end->lo;
    return !end->clamps ? all : low < end->hi ? low : end->hi;
}

/* row r */
static inline void taps_one_row(const int wide, float *y, const float *start, const tap *taps, int32_t count,
                                const matrix_end *end, int32_t r, const tap_row *t)
{
    for (int32_t p = 0; p < t->pixels; p++) {
        for (int32_t o = 0; o < t->c; o++) {
            float acc = start ? start[o] : 0.0f;
            for (int32_t k = 0; k < count; k++) {
                if (tap_inside(taps + k, p, t)) {
                    const float *x = (const float *)taps[k].x + r * t->x_next + (p * t->step + taps[k].at) * t->c;
                    const float f = wide ? ((const float *)taps[k].w)[o] : (float)((const int8_t *)taps[k].w)[o];
                    acc = fma_f32(x[o], f, acc);
                }
            }
            const int32_t at = r * t->y_next + p * t->y_step * t->c + o;
            y[at] = wide == TAPS_END ? tap_ended(acc, end, at) : acc;
        }
    }
}

static inline void taps_any(const int wide, float *y, const float *start, const tap *taps, int32_t count,
                            const matrix_end *end, const tap_row *t)
{
    for (int32_t r = 0; r < t->rows; r++) {
        taps_one_row(wide, y, start, taps, count, end, r, t);
    }
}

static inline void taps_dw_any(const int wide, const tap *taps, int32_t count, const float *g, int32_t zero,
                               const tap_row *t)
{
    for (int32_t k = 0; k < count; k++) {
        float *dw = taps[k].w;
        for (int32_t p = 0; p < t->pixels; p++) {
            const int32_t at = (p * t->step + taps[k].at) * t->c;
            for (int32_t o = 0; o < t->c && tap_inside(taps + k, p, t); o++) {
                const float x = wide ? ((const float *)taps[k].x)[at + o]
                                     : (float)(((const int8_t *)taps[k].x)[at + o] - zero);
                dw[o] = fma_f32(g[p * t->y_step * t->c + o], x, dw[o]);
            }
        }
    }
}

#endif

#endif
