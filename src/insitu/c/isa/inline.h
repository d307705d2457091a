/* Attributes and pragmas: what is inlined or kept apart, which loops are unrolled. */
#ifndef INSITU_ISA_INLINE_H
#define INSITU_ISA_INLINE_H

#include "isa/machine.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* a function that is only assembler: it finds its arguments where the calling convention puts them. Several kernels
 * include it from one header: `weak` lets the linker keep one of them */
#define ASSEMBLED __attribute__((naked, noinline, weak))
#define UNUSED __attribute__((unused))

/* a loop that gets all registers: if there are few, it is slow inside a larger function */
#define APART __attribute__((noinline)) UNUSED static

/* the same, once for all kernels that use it: the linker keeps one of them */
#define ONCE __attribute__((noinline, weak))

/* before a loop of few, constant iterations over an array: unrolled, the array can stay in registers. UNROLL_SOME: of any
 * number of iterations; clang decides itself, and warns if it is asked and does not */
#if INSITU_CLANG
#define UNROLL _Pragma("unroll")
#define UNROLL_SOME
#define ROLLED _Pragma("clang loop unroll(disable)") /* a loop so short that unrolling costs more than it saves */
#else
#define UNROLL _Pragma("GCC unroll 16")
#define UNROLL_SOME UNROLL
#define ROLLED
#endif

/* a pointer that the compiler must not recompute from others: that would take too many registers */
#define KEEP(pointer) __asm__("" : "+r"(pointer))

#endif
