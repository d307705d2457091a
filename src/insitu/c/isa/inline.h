/* Attributes and pragmas: what is inlined or kept apart, which loops are unrolled. */
#ifndef INSITU_ISA_INLINE_H
#define INSITU_ISA_INLINE_H

#include "isa/machine.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* a function that is assembler and nothing else: it finds its arguments where the calling convention puts them. Several
 * kernels have it from one header: `weak` lets the linker keep one of them */
#define ASSEMBLED __attribute__((naked, noinline, weak))
#define UNUSED __attribute__((unused))

/* a loop that gets all registers: where there are few, it is slow within a larger function */
#define APART __attribute__((noinline)) UNUSED static

/* the same, once for all kernels that have it: the linker keeps one of them */
#define ONCE __attribute__((noinline, weak))

/* before a loop of few and constant rounds over an array: unrolled, the array can live in registers */
#if INSITU_CLANG
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("clang loop unroll(disable)") /* a loop of so few rounds that unrolling costs more than it saves */
#else
#define UNROLL _Pragma("GCC unroll 16")
#define ROLLED
#endif

/* a pointer the compiler may not work out anew from others: it would take more registers than there are */
#define KEEP(pointer) __asm__("" : "+r"(pointer))

#endif
