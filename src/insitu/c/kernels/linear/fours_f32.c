/* Blocks of four by four floats, each a chain of fused multiply-adds: see products.h. */
#include "isa/fours_core.h"
#include "kernels.h"

void fours_f32(const fours_task *t)
{
    fours_sums(t);
}
