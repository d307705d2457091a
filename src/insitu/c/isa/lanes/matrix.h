/* matrix.h on vectors of floats: blocks of outputs stay in registers. */
#ifndef INSITU_ISA_LANES_MATRIX_H
#define INSITU_ISA_LANES_MATRIX_H

#include "isa/inline.h"
#include "isa/lanes.h"

/* how much of a and b stays in the first-level cache while all rows and columns use it: half as much if rows of a lie
 * side by side, because then all of them are read for each block of columns */
enum { MATRIX_DEPTH = 128, MATRIX_STRIDED = 64 };

/* the part of a product that is computed at once: `depth` steps of some runs from k on, columns from j on */
typedef struct {
    float *y;
    const float *start;
    const matrix_run *runs;
    int32_t count, k, depth, j, zero;
    vm last; /* lanes of the last vector of a row */
    const matrix_end *end; /* null before the last part */
} matrix_part;

ALWAYS_INLINE vf matrix_ended(const int full, vm k, vf sum, const matrix_end *end, ptrdiff_t at)
{
    if (end->more) {
        sum = vf_add(sum, full ? vf_full(end->more + at) : vf_load(k, end->more + at));
    }
    return end->clamps ? vf_min(vf_max(sum, vf_set(end->lo)), vf_set(end->hi)) : sum;
}

ALWAYS_INLINE vf matrix_load(const int wide, const int full, vm k, const void *b, ptrdiff_t at, int32_t zero)
{
    if (wide) {
        return full ? vf_full((const float *)b + at) : vf_load(k, (const float *)b + at);
    }
    return vf_load_s8(full ? lanes(LANES) : k, (const int8_t *)b + at, zero);
}

/* P rows by N vectors, all sums in registers; `full`: the last vector too has all its lanes */
ALWAYS_INLINE void matrix_block(const int wide, const int full, const int P, const int N, const matrix_part *part,
                                int32_t p0, const matrix_shape *m)
{
    const matrix_part t = *part;
    const ptrdiff_t a_row = m->a_row, a_next = m->a_next, b_row = m->b_row;
    vf acc[12 * 3];
    UNROLL
    for (int p = 0; p < P; p++) {
        UNROLL
        for (int j = 0; j < N; j++) {
            acc[p * N + j] = vf_zero();
            if (t.start) {
                const float *from = t.start + (ptrdiff_t)(p0 + p) * m->start_row + t.j + j * LANES;
                acc[p * N + j] = full || j + 1 < N ? vf_full(from) : vf_load(t.last, from);
            }
        }
    }
    for (int32_t r = 0; r < t.count; r++) {
        const float *a[4]; /* every third row: the two after it are within reach of an address */
        UNROLL
        for (int p = 0; p < P; p += 3) {
            a[p / 3] = t.runs[r].a + (p0 + p) * a_row + t.k * a_next;
        }
        const void *b = t.runs[r].b;
        ptrdiff_t at = t.k * b_row + t.j;
        for (int32_t k = 0; k < t.depth; k++, at += b_row) {
            vf bk[6];
            UNROLL
            for (int j = 0; j < N; j++) {
                bk[j] = matrix_load(wide, full || j + 1 < N, t.last, b, at + j * LANES, t.zero);
                VF_KEEP(bk[j]);
            }
            UNROLL
            for (int p = 0; p < P; p++) {
                const vf x = vf_set(a[p / 3][p % 3 * a_row]);
                UNROLL
                for (int j = 0; j < N; j++) {
                    acc[p * N + j] = vf_fma(x, bk[j], acc[p * N + j]);
                }
            }
            UNROLL
            for (int p = 0; p < P; p += 3) {
                a[p / 3] += a_next;
                KEEP(a[p / 3]);
            }
        }
    }
    if (wide == MATRIX_ENDS && t.end) {
        UNROLL
        for (int p = 0; p < P; p++) {
            UNROLL
            for (int j = 0; j < N; j++) {
                const ptrdiff_t at = (ptrdiff_t)(p0 + p) * m->y_row + t.j + j * LANES;
                acc[p * N + j] = matrix_ended(full || j + 1 < N, t.last, acc[p * N + j], t.end, at);
            }
        }
    }
    UNROLL
    for (int p = 0; p < P; p++) {
        float *to = t.y + (ptrdiff_t)(p0 + p) * m->y_row + t.j;
        UNROLL
        for (int j = 0; j < N; j++) {
            if (full || j + 1 < N) {
                vf_put(to + j * LANES, acc[p * N + j]);
            } else {
                vf_store(to + j * LANES, t.last, acc[p * N + j]);
            }
        }
    }
}

/* are these rows better taken in blocks of fewer than P? Few sums at once must wait for one another, so that no block
 * of one or two rows may be left over */
ALWAYS_INLINE int matrix_splits(const int P, int32_t rows)
{
    return P == 12  ? rows == 16
           : P == 6 ? (rows >= 7 && rows <= 10) || rows == 13
           : P == 5 ? rows == 8
           : P == 4 ? rows == 5 || rows == 6 || rows == 9
                    : 0;
}

/* as many rows as possible by N vectors, P or 8 at a time: how many */
ALWAYS_INLINE int32_t matrix_most(const int wide, const int full, const int P, const int N, const matrix_part *t,
                                  const matrix_shape *m)
{
    int32_t p = 0;
    for (; p + P <= m->rows && !matrix_splits(P, m->rows - p); p += P) {
        matrix_block(wide, full, P, N, t, p, m);
    }
    for (; P > 8 && p + 8 <= m->rows; p += 8) {
        matrix_block(wide, full, 8, N, t, p, m);
    }
    return p;
}

/* the next rows, P at a time: those after them */
ALWAYS_INLINE int32_t matrix_next(const int wide, const int P, const int N, const matrix_part *t, int32_t p,
                                  const matrix_shape *m)
{
    for (; p + P <= m->rows && !matrix_splits(P, m->rows - p); p += P) {
        matrix_block(wide, 0, P, N, t, p, m);
    }
    return p;
}

/* all rows by N vectors. Most rows need masked loads and stores only if the last vector is not whole: on some machines
 * they are slow. The last rows share their blocks */
ALWAYS_INLINE void matrix_vectors(const int wide, const int P, const int N, const matrix_part *t, const matrix_shape *m)
{
    const int full = m->cols - t->j >= N * LANES;
    int32_t p = full ? matrix_most(wide, 1, P, N, t, m) : matrix_most(wide, 0, P, N, t, m);
    for (; wide == MATRIX_ENDS && P > 6 && p + 6 <= m->rows && m->rows - p != 8; p += 6) {
        matrix_block(wide, 0, 6, N, t, p, m);
    }
    p = P == 6 ? matrix_next(wide, 5, N, t, p, m) : p;
    for (; P > 4 && p + 4 <= m->rows; p += 4) {
        matrix_block(wide, 0, 4, N, t, p, m);
    }
    p = P == 4 ? matrix_next(wide, 3, N, t, p, m) : p;
    p = matrix_next(wide, 2, N, t, p, m);
    matrix_next(wide, 1, N, t, p, m);
}

/* how many vectors of columns are computed at once. A row alone takes more: a sum must wait for itself, not for others */
ALWAYS_INLINE int32_t matrix_width(int32_t rows, int32_t vectors)
{
    if (rows == 1 && vectors >= 4) {
        return vectors >= 6 ? 6 : 4;
    }
    return vectors == 1 ? 1 : vectors == 2 || vectors == 4 ? 2 : 3;
}

/* all rows and columns */
ALWAYS_INLINE void matrix_columns(const int wide, matrix_part t, const matrix_shape *m)
{
    while (t.j < m->cols) {
        const int32_t n = matrix_width(m->rows, (m->cols - t.j + LANES - 1) / LANES);
        t.last = lanes(m->cols - t.j - (n - 1) * LANES);
        switch (n) {
        case 6: matrix_block(wide, 0, 1, 6, &t, 0, m); break;
        case 4: matrix_block(wide, 0, 1, 4, &t, 0, m); break;
        case 3: matrix_vectors(wide, MATRIX_ROWS_3, 3, &t, m); break;
        case 2: matrix_vectors(wide, MATRIX_ROWS_2, 2, &t, m); break;
        default: matrix_vectors(wide, MATRIX_ROWS_1, 1, &t, m); break;
        }
        t.j += n * LANES;
    }
}

ALWAYS_INLINE void matrix_any(const int wide, float *y, const float *start, const matrix_run *runs, int32_t count,
                              int32_t zero, const matrix_end *end, const matrix_shape *shape)
{
    matrix_shape m = *shape;
    const int32_t most = m.a_next == 1 ? MATRIX_DEPTH : MATRIX_STRIDED;
    const int32_t few = m.depth < most && m.depth > 0 ? 2 * most / m.depth : 1;
    matrix_part t = {y, start, runs, 0, 0, 0, 0, zero, lanes(0), NULL};
    do {
        t.count = count < few ? count : few;
        t.depth = m.depth - t.k < most ? m.depth - t.k : most;
        if (wide == MATRIX_ENDS) {
            t.end = t.k + t.depth >= m.depth && t.count >= count ? end : NULL;
        }
        matrix_columns(wide, t, &m);
        t.start = y;
        m.start_row = m.y_row;
        t.k += t.depth;
        if (t.k >= m.depth) {
            t.k = 0;
            t.runs += t.count;
            count -= t.count;
        }
    } while (count > 0);
}

#endif
