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

#include "isa/lanes/matrix_block.h"
#ifdef INSITU_HALF_LANES
#include "isa/lanes/half_names.h"
#include "isa/lanes/matrix_block.h"
#include "isa/lanes/whole_names.h"
#endif

/* are these rows better taken in blocks of fewer than P? Few sums at once must wait for one another, so that no block
 * of one or two rows may be left over */
ALWAYS_INLINE int matrix_splits(const int P, int32_t rows)
{
    return P == 12  ? rows == 16
           : P == 6 ? (rows >= 7 && rows <= 10) || rows == 13
           : P == 5 ? rows == 6 || rows == 8
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

/* how many vectors of so many columns are computed at once. A row alone takes more: a sum must wait for itself, not for
 * others. Three, or four where registers allow it and threes would leave one or two over; but half a vector goes with
 * one or alone (matrix_halves) */
ALWAYS_INLINE int32_t matrix_width(int32_t rows, int32_t cols)
{
    const int32_t vectors = (cols + LANES - 1) / LANES, whole = (cols - 1) % LANES >= LANES / 2;
    if (rows == 1 && vectors >= 4) {
        return vectors >= 6 ? 6 : 4;
    }
    if (MATRIX_ROWS_4 && whole && vectors >= 4 && vectors != 5 && vectors % 3) {
        return 4;
    }
    return vectors == 1 ? 1 : vectors == 2 || vectors == 4 ? 2 : 3;
}

/* all rows of the last columns in vectors of half the lanes, if fewer lanes are left over like this: is it so? */
#ifdef INSITU_HALF_LANES
ALWAYS_INLINE void half_vectors(const int wide, const int P, const int N, matrix_part *t, const matrix_shape *m)
{
    int32_t p = 0;
    t->last = lanes(m->cols - t->j - (N - 1) * HALF_LANES);
    for (; p + P <= m->rows; p += P) {
        half_block(wide, 0, P, N, t, p, m);
    }
    for (; p + 4 <= m->rows; p += 4) {
        half_block(wide, 0, 4, N, t, p, m);
    }
    for (; p < m->rows; p++) {
        half_block(wide, 0, 1, N, t, p, m);
    }
}

ALWAYS_INLINE int matrix_halves(const int wide, matrix_part t, const matrix_shape *m)
{
    const int32_t halves = (m->cols - t.j + HALF_LANES - 1) / HALF_LANES;
    if (m->rows < 4 || (halves != 1 && halves != 3)) {
        return 0;
    }
    if (halves == 1) {
        half_vectors(wide, HALF_ROWS_1, 1, &t, m);
    } else {
        half_vectors(wide, HALF_ROWS_3, 3, &t, m);
    }
    return 1;
}
#else
#define matrix_halves(wide, t, m) 0
#endif

/* all rows by four vectors: a row alone, or blocks of rows none of which is alone unless it must be */
#if MATRIX_ROWS_4
ALWAYS_INLINE void matrix_fours(const int wide, const matrix_part *t, const matrix_shape *m)
{
    if (m->rows == 1) {
        matrix_block(wide, 0, 1, 4, t, 0, m);
    } else {
        matrix_vectors(wide, MATRIX_ROWS_4, 4, t, m);
    }
}
#else
#define matrix_fours(wide, t, m) matrix_block(wide, 0, 1, 4, t, 0, m)
#endif

/* all rows and columns */
ALWAYS_INLINE void matrix_columns(const int wide, matrix_part t, const matrix_shape *m)
{
    while (t.j < m->cols && !matrix_halves(wide, t, m)) {
        const int32_t n = matrix_width(m->rows, m->cols - t.j);
        t.last = lanes(m->cols - t.j - (n - 1) * LANES);
        switch (n) {
        case 6: matrix_block(wide, 0, 1, 6, &t, 0, m); break;
        case 4: matrix_fours(wide, &t, m); break;
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
