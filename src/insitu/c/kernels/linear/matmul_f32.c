/* y[t,i,j] = sum over k of a[ia[t],i,k] b[ib[t],k,j]; a null index is the identity. Not in place. */
#include "isa/primitives.h"
#include "kernels.h"

void matmul_f32(float *y, const float *a, const float *b, const matmul_shape *s)
{
    for (int32_t t = 0; t < s->batch; t++) {
        const float *left = a + (s->ia ? s->ia[t] : t) * s->m * s->k;
        const float *right = b + (s->ib ? s->ib[t] : t) * s->k * s->n;
        for (int32_t i = 0; i < s->m; i++, y += s->n) {
            for (int32_t j = 0; j < s->n; j++) {
                y[j] = 0.0f;
            }
            for (int32_t k = 0; k < s->k; k++) {
                axpy_f32(y, right + k * s->n, *left++, s->n);
            }
        }
    }
}
