/* Losses and updates. A loss is one float; updates work in place on what lasts.
 * count = {skipped, clipped, saturated}.
 */
#ifndef INSITU_TRAINING_H
#define INSITU_TRAINING_H

#include <stdint.h>

#include "numbers/scales.h"

typedef struct {
    float beta1, beta2, rest1, rest2, epsilon, decay, clip; /* rest = 1 - beta, exactly rounded */
} adam_options;

/* of an integer parameter with n elements: channel[i / inner % channels] turns a real step of element i into its unit;
 * where that is null, it is what channel_scales_f32 gives for scales, over and rest */
typedef struct {
    const float *channel;
    const weight_scales *scales;
    float over;
    int32_t rest;
    int32_t channels, inner, n;
    float clip, decay;
    int32_t stream; /* of its random numbers */
} integer_update;

void softmax_cross_entropy_f32(float *loss, const float *x, const int32_t *labels, int32_t n, int32_t classes);
void softmax_cross_entropy_dx_f32(float *dx, const float *g, const float *x, const int32_t *labels, int32_t n,
                                  int32_t classes);
void soft_cross_entropy_f32(float *loss, const float *x, const float *target, int32_t n, int32_t classes);
void soft_cross_entropy_dx_f32(float *dx, const float *g, const float *x, const float *target, int32_t n,
                               int32_t classes);
void binary_cross_entropy_f32(float *loss, const float *x, const float *target, int32_t n);
void binary_cross_entropy_dx_f32(float *dx, const float *g, const float *x, const float *target, int32_t n);
void mean_squared_error_f32(float *loss, const float *x, const float *target, int32_t n);
void mean_squared_error_dx_f32(float *dx, const float *g, const float *x, const float *target, int32_t n);

void merge_channels_b1(void *w, const void *trained, const void *fixed, const int32_t *where, int32_t rows,
                       int32_t channels, int32_t count);
void merge_channels_b4(void *w, const void *trained, const void *fixed, const int32_t *where, int32_t rows,
                       int32_t channels, int32_t count);
void take_channels_b1(void *y, const void *x, const int32_t *which, int32_t rows, int32_t channels, int32_t count);
void take_channels_b4(void *y, const void *x, const int32_t *which, int32_t rows, int32_t channels,
                      int32_t count);

/* Updates. None changes anything where the rate is 0 or not finite, or the gradient is not finite. */
float clip_factor(const float *g, float rate, float clip, int32_t *count, int32_t n);

void skip_step(int32_t *count);
void guard_rate(float *rate_out, int32_t *count, const float *loss, const float *rate);
void limit_rate(float *rate_out, int32_t *count, const float *rate, const float *g, float clip, int32_t n);
void accumulate_f32(float *total, const float *g, const float *gate, int32_t n);
void take_sum_f32(float *mean, float *total, const float *share, int32_t n);
void sgd_f32(float *w, int32_t *count, const float *dw, const float *rate, float decay, float clip, int32_t n);
void sgd_momentum_f32(float *w, float *m, int32_t *count, const float *dw, const float *rate, float momentum,
                      float decay, float clip, int32_t nesterov, int32_t n);
void adam_f32(float *w, float *m, float *v, float *bias, int32_t *count, const float *dw, const float *rate,
              const adam_options *o, int32_t n);
void sgd_residual_s8(int8_t *w, int8_t *r, int32_t *count, const float *dw, const float *rate,
                     const integer_update *u);
void sgd_residual_tile_s8(int8_t *w, int8_t *r, int32_t *count, const float *dw, const float *rate, const float *norm,
                          int32_t first, int32_t n, const integer_update *u);
void norm_tile_f32(float *norm, const float *g, int32_t first, int32_t n);
void norm_factor_f32(float *norm, int32_t *count, const float *rate, float clip);
void sgd_residual4_s8(int8_t *w, uint8_t *packed, int32_t *count, const float *dw, const float *rate,
                      const int32_t *step, const integer_update *u);
void sgd_stochastic_s8(int8_t *w, int32_t *count, const float *dw, const float *rate, const int32_t *step,
                       const integer_update *u);
void sgd_nearest_s8(int8_t *w, int32_t *count, const float *dw, const float *rate, const integer_update *u);
void sgd_master_s8(int8_t *w, float *m, int32_t *count, const float *dw, const float *rate, const integer_update *u);
void sgd_bias_s32(int32_t *b, int32_t *count, const float *db, const float *rate, const integer_update *u);

uint32_t crc32_bytes(const uint8_t *data, uint32_t n);
void unpack_bits(int32_t *to, const uint8_t *from, int32_t bits, int32_t n);

#endif
