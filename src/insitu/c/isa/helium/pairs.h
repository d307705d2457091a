/* pairs.h for Helium: sixteen products of bytes per instruction.
 *
 * Rows stay bytes, one after the other, with zeros after the last number of a row of weights. The effect of the zero
 * point, zero times the sum of an output's weights, is subtracted from its start.
 */
#ifndef INSITU_ISA_HELIUM_PAIRS_H
#define INSITU_ISA_HELIUM_PAIRS_H

#include "isa/helium/vectors.h"

ALWAYS_INLINE void helium_copy(int8_t *to, const int8_t *from, int32_t n)
{
    for (; n > 0; n -= HELIUM_BYTES, to += HELIUM_BYTES, from += HELIUM_BYTES) {
        const mve_pred16_t p = vctp8q((uint32_t)n);
        vstrbq_p_s8(to, vldrbq_z_s8(from, p), p);
    }
}

/* `count` windows, of which `there` exist: the last one is repeated */
APART void helium_pairs_window(int16_t *to, const pairs_window *w, int32_t count, int32_t there)
{
    const int32_t k = w->kh * w->n, length = pairs_length(k);
    int8_t *row = (int8_t *)to;
    for (int32_t r = 0; r < count; r++, row += length) {
        const int8_t *x = w->x + (r < there ? r : there - 1) * w->row;
        int8_t *at = row;
        for (int32_t u = 0; u < w->kh; u++, x += w->step, at += w->n) {
            helium_copy(at, x, w->n);
        }
        for (int32_t i = k; i < length; i++) {
            row[i] = 0;
        }
    }
}

/* rows of pixels are already contiguous */
static inline void helium_pairs_windows(int16_t *to, pairs_window w, int32_t blocks)
{
    const int32_t n = w.kh * w.n, together = w.kh == 1 && n == w.row && n % 4 == 0;
    for (; blocks > 0; blocks--, w.x += PAIRS_PIXELS * w.row, to += PAIRS_PIXELS * pairs_length(n)) {
        if (together) {
            helium_copy((int8_t *)to, w.x, PAIRS_PIXELS * n);
        } else {
            helium_pairs_window(to, &w, PAIRS_PIXELS, PAIRS_PIXELS);
        }
    }
}
#define pairs_window4(to, w, blocks, zero) ((void)(zero), helium_pairs_windows(to, *(w), blocks))
#define pairs_window2(to, w) helium_pairs_window(to, w, 2, 2)
#define pairs_few(to, w, there, zero) ((void)(zero), helium_pairs_window(to, w, 4, there))

/* where an output's sums start */
ALWAYS_INLINE int32_t helium_start(const int8_t *w, int32_t n, int32_t start, int32_t zero)
{
    int32_t sum = 0;
    for (; n > 0; n -= HELIUM_BYTES, w += HELIUM_BYTES) {
        sum = vaddvaq_s8(sum, vldrbq_z_s8(w, vctp8q((uint32_t)n)));
    }
    return (int32_t)((uint32_t)start - (uint32_t)zero * (uint32_t)sum);
}

/* one output of four pixels */
ALWAYS_INLINE int32x4_t helium_dots(const int8_t *x, const int8_t *w, int32_t n)
{
    const int8_t *x1 = x + n, *x2 = x1 + n, *x3 = x2 + n;
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (; n > 0; n -= HELIUM_BYTES) {
        const mve_pred16_t p = vctp8q((uint32_t)n);
        const int8x16_t wide = vldrbq_z_s8(w, p);
        a = vmladavaq_p_s8(a, vldrbq_z_s8(x, p), wide, p);
        b = vmladavaq_p_s8(b, vldrbq_z_s8(x1, p), wide, p);
        c = vmladavaq_p_s8(c, vldrbq_z_s8(x2, p), wide, p);
        d = vmladavaq_p_s8(d, vldrbq_z_s8(x3, p), wide, p);
        x += HELIUM_BYTES;
        x1 += HELIUM_BYTES;
        x2 += HELIUM_BYTES;
        x3 += HELIUM_BYTES;
        w += HELIUM_BYTES;
    }
    return (int32x4_t){a, b, c, d};
}

/* the weights of both outputs, if one or two vectors hold a row; zeros after it */
typedef struct {
    int8x16_t first, first_rest, next, next_rest;
} helium_rows;

ALWAYS_INLINE helium_rows helium_weights(const int8_t *w, int32_t n)
{
    const mve_pred16_t p = vctp8q((uint32_t)n), rest = vctp8q((uint32_t)(n > HELIUM_BYTES ? n - HELIUM_BYTES : 0));
    const helium_rows rows = {vldrbq_z_s8(w, p), vldrbq_z_s8(w + HELIUM_BYTES, rest), vldrbq_z_s8(w + n, p),
                              vldrbq_z_s8(w + n + HELIUM_BYTES, rest)};
    return rows;
}

/* a pixel's sum; numbers read beyond its last one meet zeros */
ALWAYS_INLINE int32_t helium_dot(int8x16_t x, int8x16_t rest, int8x16_t w, int8x16_t w_rest, const int vectors)
{
    const int32_t sum = vmladavq_s8(x, w);
    return vectors > 1 ? vmladavaq_s8(sum, rest, w_rest) : sum;
}

/* both outputs of four pixels; rows of one or two vectors, or any number (0) */
ALWAYS_INLINE void helium_block(int32x4_t *first, int32x4_t *next, const int8_t *x, const int8_t *w, int32_t n,
                                helium_rows rows, const int vectors)
{
    if (!vectors) {
        *first = helium_dots(x, w, n);
        *next = helium_dots(x, w + n, n);
        return;
    }
    int32_t sums[PAIRS_BLOCK];
    UNROLL
    for (int p = 0; p < PAIRS_PIXELS; p++) {
        const int8x16_t now = vldrbq_s8(x + p * n), rest = vectors > 1 ? vldrbq_s8(x + p * n + HELIUM_BYTES) : now;
        sums[p] = helium_dot(now, rest, rows.first, rows.first_rest, vectors);
        sums[p + PAIRS_PIXELS] = helium_dot(now, rest, rows.next, rows.next_rest, vectors);
    }
    *first = (int32x4_t){sums[0], sums[1], sums[2], sums[3]};
    *next = (int32x4_t){sums[4], sums[5], sums[6], sums[7]};
}

enum { HELIUM_SUMS, HELIUM_PLAIN, HELIUM_MASKED };

/* four pixels' results of two outputs, which are not clamped yet */
ALWAYS_INLINE void helium_both(int8_t *y, uint8_t *mask, int32x4_t v, int32x4_t next, uint32x4_t places, uint32x4_t bytes,
                               const pairs_task *t)
{
    const int32x4_t within = helium_within(v), too = helium_within(next);
    vstrbq_scatter_offset_s32(y, places, within);
    vstrbq_scatter_offset_s32(y + 1, places, too);
    if (mask) {
        uint32x4_t bits = vldrbq_gather_offset_u32(mask, bytes);
        bits = vorrq_m_u32(bits, bits, vdupq_n_u32((uint32_t)t->bit), vcmpeqq_s32(v, within));
        bits = vorrq_m_u32(bits, bits, vdupq_n_u32(2u * (uint32_t)t->bit), vcmpeqq_s32(next, too));
        vstrbq_scatter_offset_u32(mask, bytes, bits);
    }
}

ALWAYS_INLINE void helium_blocks(const pairs_task *task, const int way, const int vectors)
{
    const pairs_task t = *task;
    const int32_t n = (int32_t)(t.w_end - t.w) / PAIRS_OUTPUTS;
    const int8_t *w = (const int8_t *)t.w, *x = (const int8_t *)t.x, *end = (const int8_t *)t.x_end;
    const int32_t start = helium_start(w, n, t.start[0], t.zero), start_next = helium_start(w + n, n, t.start[1], t.zero);
    const helium_rows rows = helium_weights(w, vectors ? n : 0);
    const uint32x4_t places = helium_steps(t.y_row), bytes = helium_steps(t.mask_row);
    int32_t *sums = (int32_t *)(void *)t.y;
    uint8_t *mask = t.mask;
    int8_t *y = t.y;
    for (; x < end; x += 2 * PAIRS_PIXELS * n) {
        int32x4_t first, next;
        helium_block(&first, &next, x, w, n, rows, vectors);
        first = vaddq_n_s32(first, start);
        next = vaddq_n_s32(next, start_next);
        if (way == HELIUM_SUMS) {
            vstrwq_s32(sums, first);
            vstrwq_s32(sums + PAIRS_SUMS, next);
            sums += PAIRS_PIXELS;
        } else {
            helium_both(y, way == HELIUM_MASKED ? mask : NULL, helium_value(first, &t.q[0]),
                        helium_value(next, &t.q[1]), places, bytes, task);
            y += PAIRS_PIXELS * t.y_row;
            mask = way == HELIUM_MASKED ? mask + PAIRS_PIXELS * t.mask_row : mask;
        }
    }
}

APART void helium_pairs_sums(const pairs_task *t)
{
    helium_blocks(t, HELIUM_SUMS, 0);
}

APART void helium_quick_any(const pairs_task *t)
{
    helium_blocks(t, HELIUM_PLAIN, 0);
}

APART void helium_quick_one(const pairs_task *t)
{
    helium_blocks(t, HELIUM_PLAIN, 1);
}

APART void helium_quick_two(const pairs_task *t)
{
    helium_blocks(t, HELIUM_PLAIN, 2);
}

APART void helium_pairs_masked(const pairs_task *t)
{
    helium_blocks(t, HELIUM_MASKED, 0);
}

static inline void helium_pairs_quick(const pairs_task *t)
{
    const int32_t n = (int32_t)(t->w_end - t->w) / PAIRS_OUTPUTS;
    if (n <= HELIUM_BYTES) {
        helium_quick_one(t);
    } else if (n <= 2 * HELIUM_BYTES) {
        helium_quick_two(t);
    } else {
        helium_quick_any(t);
    }
}

static inline void helium_pairs_store(const pairs_task *t, int32_t way)
{
    if (way == PAIRS_PLAIN) {
        helium_pairs_quick(t);
    } else if (way == PAIRS_MASKED) {
        helium_pairs_masked(t);
    } else {
        helium_pairs_sums(t);
    }
}
#define pairs_ready(t) ((void)(t))
#define pairs_store helium_pairs_store
#define pairs_outputs(t, source, way) ((source)->left)

#endif
