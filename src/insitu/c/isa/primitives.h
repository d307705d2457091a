/* The primitives that most kernels are loops over: scalar.h says what each means, and x86 has versions of its own.
 * Equal in every bit for integers and for axpy_f32, equal up to the order of sums for other floats.
 *
 * depthwise_images_s8 has no meaning of its own: a machine that has it computes a whole depthwise2d_s8 and returns 1, or
 * returns 0 and leaves it to depthwise_row_s8.
 *
 * Some kernels are made for machines with few registers and little memory. Their primitives are in headers of their
 * own, each with what it means and which machine's version is taken: pairs.h (dense int8), planes.h (depthwise int8),
 * quick.h (requantisation), sum.h (residual adds), fours_core.h, gather.h, rows.h, mantissas.h, turned.h and
 * window_sums.h (gradients), steps.h (updates), copy.h, mask.h. tile.h and matrix.h are kernels of their own.
 */
#ifndef INSITU_ISA_PRIMITIVES_H
#define INSITU_ISA_PRIMITIVES_H

#include "isa/machine.h"
#include "isa/scalar.h"

#if INSITU_AVX512
#include "isa/avx512/primitives.h"
#elif INSITU_AVX2_FLOATS
#include "isa/avx2/primitives.h"
#elif INSITU_V128
#include "isa/v128/depthwise.h"
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
#ifndef depthwise_row_s8
#define depthwise_row_s8 scalar_depthwise_row_s8
#endif
#ifndef depthwise_images_s8
#define depthwise_images_s8(y, mask, x, w, b, s, q) 0
#endif

#endif
