/* Kernels that work element by element, along one axis, or only move elements. Included by kernels.h.
 *
 * The dense ones (convolutions, products, pools, sums) are in dense.h.
 */
#ifndef INSITU_ELEMENTWISE_H
#define INSITU_ELEMENTWISE_H

#include <stdint.h>

/* y = f(x), n elements, in place allowed */
void relu_f32(float *y, const float *x, int32_t n);
void clamp_f32(float *y, const float *x, int32_t n, float lo, float hi);
void leaky_relu_f32(float *y, const float *x, int32_t n, float slope);
void sigmoid_f32(float *y, const float *x, int32_t n);
void tanh_f32(float *y, const float *x, int32_t n);
void hard_sigmoid_f32(float *y, const float *x, int32_t n, float alpha, float beta);
void hard_swish_f32(float *y, const float *x, int32_t n);
void silu_f32(float *y, const float *x, int32_t n);
void gelu_f32(float *y, const float *x, int32_t n);
void gelu_tanh_f32(float *y, const float *x, int32_t n);
void elu_f32(float *y, const float *x, int32_t n, float alpha);
void softplus_f32(float *y, const float *x, int32_t n);
void exp_f32(float *y, const float *x, int32_t n);
void log_f32(float *y, const float *x, int32_t n);
void sqrt_f32(float *y, const float *x, int32_t n);
void rsqrt_f32(float *y, const float *x, int32_t n);
void reciprocal_f32(float *y, const float *x, int32_t n);
void neg_f32(float *y, const float *x, int32_t n);
void abs_f32(float *y, const float *x, int32_t n);
void square_f32(float *y, const float *x, int32_t n);
void erf_f32(float *y, const float *x, int32_t n);
void lut_s8(int8_t *y, const int8_t *x, const int8_t *table, int32_t n);

/* Two operands that broadcast: y is `rows` rows of `n` elements, and an operand moves by 1 (a_step, b_step) or not
 * at all (0) along a row. The rows are the points of size[0] x ... x size[rank-1], the last fastest; a[d], b[d] are
 * the steps of the operands in elements, 0 where one is repeated. Equal neighbours are merged at compile time: two
 * operands of one shape are a single row.
 */
typedef struct {
    int32_t n, a_step, b_step, rows, rank;
    int32_t size[5], a[5], b[5];
} pair_shape;

void add_f32(float *y, const float *a, const float *b, const pair_shape *s);
void sub_f32(float *y, const float *a, const float *b, const pair_shape *s);
void mul_f32(float *y, const float *a, const float *b, const pair_shape *s);
void div_f32(float *y, const float *a, const float *b, const pair_shape *s);
void prelu_f32(float *y, const float *x, const float *slope, const pair_shape *s);

/* y = clamp(((ma (a - a_zero) + mb (b - b_zero) + 2^(shift-1)) >> shift) + y_zero) */
typedef struct {
    int32_t a_zero, b_zero, y_zero, lo, hi;
    int32_t ma, mb, shift;
} sum_quant;

/* the same sum as LiteRT has it: each term shifted left by 20 and rescaled, then the sum rescaled; sign is 1 or -1 */
typedef struct {
    int32_t a_zero, b_zero, y_zero, lo, hi;
    int32_t ma, mb, my, a_shift, b_shift, y_shift, sign;
} sum_litert_quant;

/* y = clamp(rescale((a - a_zero)(b - b_zero), m, shift) + y_zero); requantize_s8 has no b */
typedef struct {
    int32_t a_zero, b_zero, y_zero, lo, hi;
    int32_t m, shift;
} product_quant;

/* with a mask (see mask.h; else null), whether each value before the clamp lies within lo..hi */
void sum_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s, int32_t channels,
            const sum_quant *q);
void sum_litert_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s, int32_t channels,
                   const sum_litert_quant *q);
void mul_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s, int32_t channels,
            const product_quant *q);
void mul_litert_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const pair_shape *s, int32_t channels,
                   const product_quant *q);
void requantize_s8(int8_t *y, uint8_t *mask, const int8_t *x, int32_t n, int32_t channels, const product_quant *q);
void requantize_litert_s8(int8_t *y, uint8_t *mask, const int8_t *x, int32_t n, int32_t channels,
                          const product_quant *q);
void quantize_s8(int8_t *y, const float *x, int32_t n, float scale, int32_t zero);
void dequantize_s8(float *y, const int8_t *x, int32_t n, float scale, int32_t zero);
/* (x - mean) / std, channel c = (i / inner) % channels; in s8 a table of 256 a channel. In place where sizes are equal */
void normalize_u8(float *y, const uint8_t *x, const float *mean, const float *std, int32_t n, int32_t channels,
                  int32_t inner);
void normalize_f32(float *y, const float *x, const float *mean, const float *std, int32_t n, int32_t channels,
                   int32_t inner);
void normalize_s8(int8_t *y, const uint8_t *x, const int8_t *table, int32_t n, int32_t channels, int32_t inner);

/* along one axis: x is [outer, n, inner] */
void softmax_f32(float *y, const float *x, int32_t outer, int32_t n, int32_t inner);
void log_softmax_f32(float *y, const float *x, int32_t outer, int32_t n, int32_t inner);
void softmax_s8(int8_t *y, const int8_t *x, int32_t rows, int32_t n, int32_t m, int32_t left, int32_t diff_min);
void batch_norm_f32(float *y, const float *x, const float *scale, const float *bias, const float *mean,
                    const float *var, int32_t outer, int32_t c, int32_t inner, float epsilon, void *scratch);
void layer_norm_f32(float *y, const float *x, const float *scale, const float *bias, int32_t rows, int32_t n,
                    float epsilon);

/* A box of elements copied from one strided place to another. `item` bytes are contiguous in both; steps and
 * offsets are in bytes.
 */
typedef struct {
    int32_t item, rank, y_offset, x_offset;
    int32_t size[6], y[6], x[6];
} box_shape;

void copy_bytes(void *y, const void *x, int32_t n);
void slide_bytes(void *y, int32_t by, int32_t n);
void fill_bytes(void *y, int32_t byte, int32_t n);
int32_t finite_f32(const float *x, int32_t n);
void copy_box(void *y, const void *x, const box_shape *s);
void pad_b1(int8_t *y, const void *x, const box_shape *s, int32_t n, int32_t value);
void pad_b4(float *y, const void *x, const box_shape *s, int32_t n, float value);
void resize_nearest(void *y, const void *x, const int32_t *row, const int32_t *column, int32_t n, int32_t h, int32_t w,
                    int32_t oh, int32_t ow, int32_t item);
/* `count` pieces, `bytes[i]` of each of `rows` rows; the pieces (const void *, void *) come last */
void concat_bytes(void *y, int32_t rows, int32_t count, const int32_t *bytes, ...);
void split_bytes(const void *x, int32_t rows, int32_t count, const int32_t *bytes, ...);

#endif
