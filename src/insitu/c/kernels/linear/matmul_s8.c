/* acc[t,i,j] = sum over k of (a[ia[t],i,k] - x_zero) (b[ib[t],k,j] - w_zero); y = requantised acc.
 * A null index is the identity. Scratch: 4 n bytes, one row of sums. Not in place.
 */
#include "isa/primitives.h"
#include "kernels.h"
#include "kernels/mask.h"

void matmul_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const matmul_shape *s, int32_t channels,
               const requant *q, void *scratch)
{
    int32_t *acc = (int32_t *)scratch;
    mask_writer w = mask_start(mask, channels);
    for (int32_t t = 0; t < s->batch; t++) {
        const int8_t *left = a + (s->ia ? s->ia[t] : t) * s->m * s->k;
        const int8_t *right = b + (s->ib ? s->ib[t] : t) * s->k * s->n;
        for (int32_t i = 0; i < s->m; i++, y += s->n) {
            for (int32_t j = 0; j < s->n; j++) {
                acc[j] = 0;
            }
            for (int32_t k = 0; k < s->k; k++) {
                axpy_s8(acc, right + k * s->n, q->w_zero, *left++ - q->x_zero, s->n);
            }
            requant_row(y, acc, q, s->n);
            for (int32_t j = 0; mask && j < s->n; j++) {
                mask_next(&w, requant_value(acc[j], j, q), q->lo, q->hi);
            }
        }
    }
}
