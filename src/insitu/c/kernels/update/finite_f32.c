/* 1 if all n elements of x are finite, else 0. */
#include "isa/finite.h"
#include "kernels.h"

int32_t finite_f32(const float *x, int32_t n)
{
    return finite_row_f32(x, n);
}
