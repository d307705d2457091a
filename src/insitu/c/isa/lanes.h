/* Vectors of floats for loops whose lanes are independent outputs: such loops give the same bits at every width.
 *
 *   vf, vm                          a vector of LANES floats; a set of lanes
 *   lanes(n)                        the first n lanes (all of them, for n >= LANES)
 *   lanes_of(bits)                  lane i where bit i is one
 *   vf_load(k, p), vf_store(p, k, v)   the lanes k of the floats at p; others read as zero, and are not written.
 *                                   What is stored are the first lanes: k is lanes(n)
 *   vf_store_parts(p, k, v)         vf_store for rows in place: a load of the floats after the lanes k does not wait for it
 *   vf_full(p), vf_put(p, v)        all lanes
 *   vf_load_s8(k, p, zero)          p[i] - zero as floats
 *   vf_set(a), vf_zero()            the same number in all lanes
 *   vf_fma(a, b, c)                 a b + c, rounded once;  vf_fnma: c - a b;  vf_mul, vf_add, vf_sub, vf_min, vf_max
 *   vf_between(g, y, lo, hi)        g where lo < y < hi, else 0;  vf_above(g, y, lo): where lo < y
 *
 * INSITU_LANES is defined if this machine has them; without, loops are plain C (fma.h).
 */
#ifndef INSITU_ISA_LANES_H
#define INSITU_ISA_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "isa/machine.h"

#if INSITU_AVX512_FLOATS
#include "isa/avx512/lanes.h"
#elif INSITU_AVX2_FLOATS
#include "isa/avx2/lanes.h"
#endif

#endif
