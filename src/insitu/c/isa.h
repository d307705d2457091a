/* The primitives kernels are loops over, and the only place that asks what machine this is.
 *
 * isa/scalar.h says what each means. A machine's own file gives fast twins of some of them: equal in every bit
 * for integers and for axpy_f32, equal up to the order of sums for other floats. -DINSITU_SCALAR takes the meaning on
 * any machine.
 *
 * Some kernels are made for machines with few registers and little memory; their primitives say what they mean beside
 * them, each with a twin for Cortex-M with the DSP extension (arm_*.h), in assembler where a compiler runs out of
 * registers: pairs.h (dense int8), planes.h (depthwise int8), quick.h (requantisation), sum.h (residual adds),
 * fours_core.h, gather.h, rows.h, mantissas.h and window_sums.h (gradients), steps.h (updates), copy.h, mask.h. The
 * first four and sums of integer gradients (pairs.h, turned.h, window_sums.h) have one for Helium, too (helium_*.h).
 */
#ifndef INSITU_ISA_H
#define INSITU_ISA_H

#include "isa/scalar.h"

#if !defined(INSITU_SCALAR)
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__AVX512VNNI__)
#include "isa/avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "isa/avx2.h"
#endif
#endif

#ifndef dot_f32
#define dot_f32 scalar_dot_f32
#endif
#ifndef dot_s16s8
#define dot_s16s8 scalar_dot_s16s8
#endif
#ifndef sum_f32
#define sum_f32 scalar_sum_f32
#endif
#ifndef axpy_f32
#define axpy_f32 scalar_axpy_f32
#endif
#ifndef axpy_s8
#define axpy_s8 scalar_axpy_s8
#endif
#ifndef max_f32
#define max_f32 scalar_max_f32
#endif
#ifndef max_s8
#define max_s8 scalar_max_s8
#endif
#ifndef centre_s8
#define centre_s8 scalar_centre_s8
#endif
#ifndef raise_s8
#define raise_s8 scalar_raise_s8
#endif
#ifndef requant_row
#define requant_row scalar_requant_row
#endif
#ifndef sum_litert_run
#define sum_litert_run scalar_sum_litert_run
#endif
#ifndef tile_s8
#define tile_s8 scalar_tile_s8
#endif
#ifndef depthwise_row_s8
#define depthwise_row_s8 scalar_depthwise_row_s8
#endif

#endif
