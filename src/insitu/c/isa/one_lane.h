/* lanes.h for a machine without vectors: a vector of one float. For loops that are written with vectors only. */
#ifndef INSITU_ISA_ONE_LANE_H
#define INSITU_ISA_ONE_LANE_H

#include "isa/fma.h"
#include "isa/inline.h"
#include "isa/lanes.h"

#ifndef INSITU_LANES

enum { LANES = 1 };
typedef float vf;
typedef int vm;

ALWAYS_INLINE vm lanes(int32_t n)
{
    return n > 0;
}

ALWAYS_INLINE vf vf_load(vm k, const float *p)
{
    return k ? *p : 0.0f;
}

ALWAYS_INLINE vf vf_full(const float *p)
{
    return *p;
}

ALWAYS_INLINE void vf_put(float *p, vf v)
{
    *p = v;
}

ALWAYS_INLINE void vf_store(float *p, vm k, vf v)
{
    if (k) {
        *p = v;
    }
}

ALWAYS_INLINE void vf_store_parts(float *p, vm k, vf v)
{
    vf_store(p, k, v);
}

ALWAYS_INLINE vf vf_set(float a)
{
    return a;
}

ALWAYS_INLINE vf vf_zero(void)
{
    return 0.0f;
}

ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return fma_f32(a, b, c);
}

ALWAYS_INLINE vf vf_fnma(vf a, vf b, vf c)
{
    return fma_f32(-a, b, c);
}

ALWAYS_INLINE vf vf_mul(vf a, vf b)
{
    return a * b;
}

ALWAYS_INLINE vf vf_add(vf a, vf b)
{
    return a + b;
}

ALWAYS_INLINE vf vf_sub(vf a, vf b)
{
    return a - b;
}

ALWAYS_INLINE vf vf_min(vf a, vf b)
{
    return a < b ? a : b;
}

ALWAYS_INLINE vf vf_max(vf a, vf b)
{
    return a > b ? a : b;
}

ALWAYS_INLINE vf vf_above(vf g, vf y, vf lo)
{
    return lo < y ? g : 0.0f;
}

ALWAYS_INLINE vf vf_between(vf g, vf y, vf lo, vf hi)
{
    return lo < y && y < hi ? g : 0.0f;
}

#endif

#endif
