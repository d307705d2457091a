/* Backward kernels of what works element by element, along one axis, on windows, or moves elements. Included by
 * kernels.h. Those of the dense ops are in backward.h.
 */
#ifndef INSITU_GRADIENTS_H
#define INSITU_GRADIENTS_H

#include <stdint.h>

#include "elementwise.h"
#include "kernels/shapes.h"

/* dx from g and y, or g and x; n elements, in place over g allowed */
void relu_dx_f32(float *dx, const float *g, const float *y, int32_t n);
void relu6_dx_f32(float *dx, const float *g, const float *y, int32_t n);
void sigmoid_dx_f32(float *dx, const float *g, const float *y, int32_t n);
void tanh_dx_f32(float *dx, const float *g, const float *y, int32_t n);
void clamp_dx_f32(float *dx, const float *g, const float *x, int32_t n, float lo, float hi);
void leaky_relu_dx_f32(float *dx, const float *g, const float *x, int32_t n, float slope);
void hard_sigmoid_dx_f32(float *dx, const float *g, const float *x, int32_t n, float alpha, float lo, float hi);
void hard_swish_dx_f32(float *dx, const float *g, const float *x, int32_t n);
void silu_dx_f32(float *dx, const float *g, const float *x, int32_t n);
void gelu_dx_f32(float *dx, const float *g, const float *x, int32_t n);
void gelu_tanh_dx_f32(float *dx, const float *g, const float *x, int32_t n);
void elu_dx_f32(float *dx, const float *g, const float *x, int32_t n, float alpha);
void softplus_dx_f32(float *dx, const float *g, const float *x, int32_t n);
void abs_dx_f32(float *dx, const float *g, const float *x, int32_t n);
void prelu_dx_f32(float *dx, const float *g, const float *x, const float *slope, const pair_shape *s);

/* y = g where the bit of the mask is one, else 0; in place over g allowed */
void mask_grad_f32(float *y, const float *g, const uint8_t *mask, int32_t rows, int32_t c);

/* dx = g slope[x + 128]: the gradient of a table */
void lut_dx_s8(float *dx, const float *g, const int8_t *x, const float *slope, int32_t n);

/* y = g times the reals x stands for; x broadcasts */
void mul_real_s8(float *y, const float *g, const int8_t *x, const pair_shape *s, float scale, int32_t zero);

/* sums and their adjoints over reduced axes */
void unbroadcast_f32(float *y, const float *g, const reduce_shape *s);
void expand_f32(float *y, const float *g, const reduce_shape *s, float factor);
void amax_dx_f32(float *dx, const float *g, const float *x, const reduce_shape *s);
void amax_dx_s8(float *dx, const float *g, const int8_t *x, const reduce_shape *s);
void amax_even_dx_f32(float *dx, const float *g, const float *x, const reduce_shape *s);
void amax_even_dx_s8(float *dx, const float *g, const int8_t *x, const reduce_shape *s);

/* windows and pixels */
void max_pool2d_dx_f32(float *dx, const float *g, const float *x, const conv2d_shape *s);
void max_pool2d_dx_s8(float *dx, const float *g, const int8_t *x, const conv2d_shape *s);
void avg_pool2d_dx_f32(float *dx, const float *g, const conv2d_shape *s, int32_t count_pad);
void resize_dx_f32(float *dx, const float *g, const int32_t *row, const int32_t *column, int32_t n, int32_t pixels,
                   int32_t w, int32_t oh, int32_t ow, int32_t c);

/* along one axis: [outer, n, inner] */
void softmax_dx_f32(float *dx, const float *g, const float *y, int32_t outer, int32_t n, int32_t inner);
void log_softmax_dx_f32(float *dx, const float *g, const float *y, int32_t outer, int32_t n, int32_t inner);
void batch_norm_dx_f32(float *dx, const float *g, const float *scale, const float *var, int32_t outer, int32_t c,
                       int32_t inner, float epsilon, void *scratch);
void batch_norm_dscale_f32(float *dscale, const float *g, const float *x, const float *mean, const float *var,
                           int32_t outer, int32_t c, int32_t inner, float epsilon);
void layer_norm_dx_f32(float *dx, const float *g, const float *x, const float *scale, int32_t rows, int32_t n,
                       float epsilon);
void layer_norm_dscale_f32(float *dscale, const float *g, const float *x, int32_t rows, int32_t n, float epsilon);

/* training forms: statistics of the batch; elements dropped by a counter */
void batch_norm_train_f32(float *y, float *mean, float *rstd, float *running_mean, float *running_var, const float *x,
                          const float *scale, const float *bias, int32_t outer, int32_t c, int32_t inner,
                          float epsilon, float momentum, void *scratch);
void batch_norm_again_f32(float *y, const float *x, const float *scale, const float *bias, const float *mean,
                          const float *rstd, int32_t outer, int32_t c, int32_t inner, void *scratch);
void batch_norm_train_dx_f32(float *dx, float *dscale, float *dbias, const float *g, const float *x, const float *scale,
                             const float *mean, const float *rstd, int32_t outer, int32_t c, int32_t inner,
                             void *scratch);
void dropout_train_f32(float *y, const float *x, const int32_t *counter, int32_t n, int32_t threshold, float factor,
                       int32_t layer);
void count_up_s32(int32_t *counter);

#endif
