/* planes.h for Cortex-M with the DSP extension: two taps an instruction, four outputs at a time.
 *
 * With a kernel row of 2h + 1 taps, pairs (w0,w1), (w2,w3), .. serve even outputs and pairs (w1,w2), (w3,w4), .. odd
 * ones, so that pairs of pixels are always read where a word starts. The tap that is left over is half of a pair.
 */
#ifndef INSITU_ISA_ARM_PLANES_H
#define INSITU_ISA_ARM_PLANES_H

#include "isa/arm_dsp.h"
#include "isa/inline.h"

/* two pixels of four channels at a time; a row starts anywhere, so the first pixel may stand alone */
static inline void arm_planes_widen(int16_t *y, int32_t plane, const int8_t *x, int32_t c, int32_t channels,
                                    int32_t zero, int32_t n)
{
    const uint32_t add = pair_of(-zero);
    if (channels < PLANES) {
        scalar_planes_widen(y, plane, x, c, channels, zero, n);
        return;
    }
    int16_t *y1 = y + plane, *y2 = y1 + plane, *y3 = y2 + plane;
    int32_t i = 0;
    for (; i + 2 <= n; i += 2, x += 2 * c) {
        const uint32_t a = word_at(x), b = word_at(x + c);
        const uint32_t ae = widen_even(add, a), ao = widen_odd(add, a), be = widen_even(add, b), bo = widen_odd(add, b);
        put_word(y + i, low_halves(ae, be));
        put_word(y1 + i, low_halves(ao, bo));
        put_word(y2 + i, high_halves(ae, be));
        put_word(y3 + i, high_halves(ao, bo));
    }
    if (i < n) {
        scalar_planes_widen(y + i, plane, x, c, channels, zero, 1);
    }
}
#define planes_widen arm_planes_widen

static inline int has_pairs(int32_t kw)
{
    return kw == 3 || kw == 5 || kw == 7;
}

static inline int32_t arm_plane_weights(int16_t *to, const int8_t *w, int32_t c, int32_t kh, int32_t kw)
{
    if (!has_pairs(kw)) {
        return scalar_plane_weights(to, w, c, kh, kw);
    }
    for (int32_t u = 0; u < kh; u++, w += c) {
        int16_t last = *w;
        for (int32_t v = 1; v < kw; v++, to += 2) {
            w += c;
            to[0] = last;
            last = *w;
            to[1] = last;
        }
    }
    return 2 * (kw - 1);
}
#define plane_weights arm_plane_weights

/* four sums; w holds (w0,w1), (w1,w2), (w2,w3), .. */
ALWAYS_INLINE void plane_four(const int K, const int S, int32_t *acc, const uint32_t *x, const uint32_t *w,
                              const plane_task *t)
{
    const int h = (K - 1) / 2;
    const int32_t x_row = t->x_row / 2;
    int32_t a = t->start, b = a, c = a, d = a, rows = t->kh;
    do {
        uint32_t p[7];
        UNROLL
        for (int i = 0; i < (S == 1 ? h + 2 : h + 4); i++) {
            p[i] = x[i];
        }
        UNROLL
        for (int i = 0; i < h; i++) {
            const uint32_t even = w[2 * i], odd = w[2 * i + 1];
            a = multiply_pairs(p[i], even, a);
            c = multiply_pairs(p[i + S], even, c);
            if (S == 1) {
                b = i == 0 ? multiply_high_low(p[0], even, b) : b;
                d = i == 0 ? multiply_high_low(p[1], even, d) : d;
                b = multiply_pairs(p[i + 1], odd, b);
                d = multiply_pairs(p[i + 2], odd, d);
                a = i == h - 1 ? multiply_low_high(p[h], odd, a) : a;
                c = i == h - 1 ? multiply_low_high(p[h + 1], odd, c) : c;
            } else {
                b = multiply_pairs(p[i + 1], even, b);
                d = multiply_pairs(p[i + 3], even, d);
                a = i == h - 1 ? multiply_low_high(p[h], odd, a) : a;
                b = i == h - 1 ? multiply_low_high(p[h + 1], odd, b) : b;
                c = i == h - 1 ? multiply_low_high(p[h + 2], odd, c) : c;
                d = i == h - 1 ? multiply_low_high(p[h + 3], odd, d) : d;
            }
        }
        x += x_row;
        w += 2 * h;
    } while (--rows);
    acc[0] = a;
    acc[1] = b;
    acc[2] = c;
    acc[3] = d;
}

ALWAYS_INLINE void plane_any(const int K, const int S, const plane_task *t, const channel_store *to)
{
    const uint32_t *x = (const uint32_t *)(const void *)t->x, *w = (const uint32_t *)(const void *)t->w;
    const quick_requant way = to->way;
    const int plain = to->quick && !to->mask && to->q->lo == -128 && to->q->hi == 127;
    int8_t *y = to->y;
    const int32_t y_row = to->y_row;
    int32_t acc[4], j = 0;
    for (; plain && j + 4 <= t->count; j += 4, x += 2 * S) {
        plane_four(K, S, acc, x, w, t);
        y[0] = saturate8(quick_value(acc[0], &way));
        y[y_row] = saturate8(quick_value(acc[1], &way));
        y[2 * y_row] = saturate8(quick_value(acc[2], &way));
        y[3 * y_row] = saturate8(quick_value(acc[3], &way));
        y += 4 * y_row;
    }
    for (; j < t->count; j += 4, x += 2 * S) {
        plane_four(K, S, acc, x, w, t);
        for (int32_t i = 0; i < 4 && j + i < t->count; i++) {
            store_channel(to, j + i, acc[i]);
        }
    }
}

/* the kernels that networks have; any other is plain C */
static inline void arm_plane_row(const plane_task *t, const channel_store *to)
{
    const int32_t which = has_pairs(t->kw) && t->step <= 2 && t->kh > 0 ? t->kw * 2 + t->step : 0;
    switch (which) {
    case 7:
        plane_any(3, 1, t, to);
        break;
    case 8:
        plane_any(3, 2, t, to);
        break;
    case 11:
        plane_any(5, 1, t, to);
        break;
    case 12:
        plane_any(5, 2, t, to);
        break;
    case 15:
        plane_any(7, 1, t, to);
        break;
    case 16:
        plane_any(7, 2, t, to);
        break;
    default:
        scalar_plane_row(t, to);
    }
}
#define plane_row arm_plane_row

#endif
