/* What machine is this? Asked here and nowhere else: all other files test the names below.
 *
 *   isa/X.h       says what the primitives of X mean, in plain C, and takes a machine's own version if there is one
 *   isa/dsp/      Cortex-M with the DSP extension (M4, M7, M33, M55), in assembler where a compiler runs out of
 *                 registers; an M3 takes bits.h alone
 *   isa/helium/   Cortex-M55: vectors of integers; what is missing there is taken from dsp/
 *   isa/avx2/, isa/avx512/    x86
 *   isa/v128/     WebAssembly
 *   isa/lanes/    loops over vectors of floats of any width; avx2/lanes.h and avx512/lanes.h say what such a vector is
 *
 * -DINSITU_SCALAR takes the plain C on any machine. A machine's own version is equal to it in every bit; only sums of
 * floats in primitives.h may be added in another order.
 */
#ifndef INSITU_ISA_MACHINE_H
#define INSITU_ISA_MACHINE_H

/* the compiler: clang has pragmas of its own */
#if defined(__clang__)
#define INSITU_CLANG 1
#else
#define INSITU_CLANG 0
#endif

/* Floats are rounded after every operation: -ffp-contract=off says so to the compiler. A library of Arduino cannot bring
 * options of its own, so its sources say so themselves. */
#if defined(ARDUINO) && INSITU_CLANG
#pragma STDC FP_CONTRACT OFF
#elif defined(ARDUINO) && defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

/* gcc for x86, whose immintrin.h consists of parts with names that have not changed since version 5 */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__INTEL_COMPILER) && __GNUC__ >= 5
#define INSITU_GCC_PARTS 1
#else
#define INSITU_GCC_PARTS 0
#endif

/* machines with versions of their own --------------------------------------------------------- */

/* Cortex-M with 16-bit multiply-accumulate in pairs */
#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__) && !defined(INSITU_SCALAR)
#define INSITU_DSP 1
#else
#define INSITU_DSP 0
#endif

/* the same with floating point */
#if INSITU_DSP && defined(__ARM_FEATURE_FMA)
#define INSITU_DSP_FLOATS 1
#else
#define INSITU_DSP_FLOATS 0
#endif

/* words may lie anywhere */
#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) && !defined(INSITU_SCALAR)
#define INSITU_DSP_WORDS 1
#else
#define INSITU_DSP_WORDS 0
#endif

#if defined(__ARM_FEATURE_CLZ) && defined(__thumb2__) && !defined(INSITU_SCALAR)
#define INSITU_ARM_CLZ 1
#else
#define INSITU_ARM_CLZ 0
#endif

#if defined(__arm__) && defined(__ARM_FEATURE_FMA) && !defined(INSITU_SCALAR)
#define INSITU_ARM_FLOATS 1
#else
#define INSITU_ARM_FLOATS 0
#endif

/* Cortex-M with vectors of integers */
#if defined(__ARM_FEATURE_MVE) && !defined(INSITU_SCALAR)
#define INSITU_HELIUM 1
#else
#define INSITU_HELIUM 0
#endif

/* WebAssembly with vectors */
#if defined(__wasm_simd128__) && !defined(INSITU_SCALAR)
#define INSITU_V128 1
#else
#define INSITU_V128 0
#endif

#if defined(__AVX2__) && !defined(INSITU_SCALAR)
#define INSITU_AVX2 1
#else
#define INSITU_AVX2 0
#endif

/* vectors of floats with fused multiply-adds: 8 wide, 16 wide with masks */
#if INSITU_AVX2 && defined(__FMA__)
#define INSITU_AVX2_FLOATS 1
#else
#define INSITU_AVX2_FLOATS 0
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && !defined(INSITU_SCALAR)
#define INSITU_AVX512_FLOATS 1
#else
#define INSITU_AVX512_FLOATS 0
#endif

/* and products of bytes */
#if INSITU_AVX512_FLOATS && defined(__AVX512DQ__) && defined(__AVX512VNNI__)
#define INSITU_AVX512 1
#else
#define INSITU_AVX512 0
#endif

/* instructions that compilers know ------------------------------------------------------------ */

/* A multiply-add that is rounded once. C's own fmaf may set errno, for which some compilers call libm: the first choice
 * is a name that does not. INSITU_FMA is that name if there is one; an Arm with INSITU_HAS_FMA has the instruction
 * without it. INSITU_SCALAR makes no difference: the results are the same bits. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)
#define INSITU_HAS_FMA 1
#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_fma)
#define INSITU_FMA(a, b, c) __builtin_elementwise_fma(a, b, c)
#endif
#endif
#if !defined(INSITU_FMA) && !(defined(__clang__) && defined(__arm__))
#define INSITU_FMA(a, b, c) __builtin_fmaf(a, b, c)
#endif
#else
#define INSITU_HAS_FMA 0
#endif

/* The square root. C's own sqrtf sets errno, too. INSITU_SQRT is a name that does not, if there is one; otherwise
 * INSITU_ASSEMBLED_SQRT is the instruction. */
#if !defined(INSITU_SCALAR) && (defined(__SSE2__) || defined(__aarch64__) || defined(__wasm__) || \
                                (defined(__ARM_FP) && (__ARM_FP & 4)) || defined(__riscv_flen))
#define INSITU_HAS_SQRT 1
#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_sqrt)
#define INSITU_SQRT(x) __builtin_elementwise_sqrt(x)
#endif
#endif
#if !defined(INSITU_SQRT) && (defined(__NO_MATH_ERRNO__) || defined(__wasm__))
#define INSITU_SQRT(x) __builtin_sqrtf(x) /* loops over it vectorise */
#endif
#if !defined(INSITU_SQRT) && defined(__SSE2__)
#include <emmintrin.h>
#define INSITU_SQRT(x) _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)))
#endif
#if defined(__aarch64__)
#define INSITU_ASSEMBLED_SQRT(y, x) __asm__("fsqrt %s0, %s1" : "=w"(y) : "w"(x))
#elif defined(__arm__)
#define INSITU_ASSEMBLED_SQRT(y, x) __asm__("vsqrt.f32 %0, %1" : "=t"(y) : "t"(x))
#else
#define INSITU_ASSEMBLED_SQRT(y, x) __asm__("fsqrt.s %0, %1" : "=f"(y) : "f"(x)) /* RISC-V */
#endif
#else
#define INSITU_HAS_SQRT 0
#endif

/* the product of two words has 64 bits: where that takes a library, it is made of halves */
#if defined(__ARM_ARCH_6M__) || (defined(__riscv) && !defined(__riscv_mul))
#define INSITU_HALF_PRODUCTS 1
#else
#define INSITU_HALF_PRODUCTS 0
#endif

/* a bare Cortex-M before main (boards/): does code use an FPU, which is off after reset? Does the core say why it
 * trapped? Are regions of memory protection given by their limits, or as powers of two? */
#if defined(__ARM_FP)
#define INSITU_ARM_FPU 1
#else
#define INSITU_ARM_FPU 0
#endif
#if defined(__ARM_ARCH) && __ARM_ARCH >= 7
#define INSITU_ARM_FAULT_CAUSES 1
#else
#define INSITU_ARM_FAULT_CAUSES 0
#endif
#if defined(__ARM_ARCH) && __ARM_ARCH >= 8
#define INSITU_ARM_REGION_LIMITS 1
#else
#define INSITU_ARM_REGION_LIMITS 0
#endif

#endif
