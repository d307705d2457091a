/* matrix.h, the part that is included once for each width that vectors of a machine have: a block of outputs in registers.
 * half_names.h gives the names of all that depends on the width to half a vector.
 */
#include "isa/lanes.h"

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
