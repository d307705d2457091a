/* Losses and updates. A loss is one float; updates work in place on what lasts.
 * count = {skipped, clipped, saturated}.
 */
#ifndef INSITU_TRAINING_H
#define INSITU_TRAINING_H

#include <stdint.h>

typedef struct {
    float beta1, beta2, rest1, rest2, epsilon, decay, clip; /* rest = 1 - beta, exactly rounded */
} adam_options;

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

/* the factor that brings a gradient's norm down to `clip` (1 where it is below, or clip is 0); 0 where the gradient is
 * not finite. Counts both. */
float clip_factor(const float *g, float clip, int32_t *count, int32_t n);

void accumulate_f32(float *total, const float *g, int32_t n);
void take_sum_f32(float *mean, float *total, const float *share, int32_t n);
void sgd_f32(float *w, int32_t *count, const float *dw, const float *rate, float decay, float clip, int32_t n);
void sgd_momentum_f32(float *w, float *m, int32_t *count, const float *dw, const float *rate, float momentum,
                      float decay, float clip, int32_t nesterov, int32_t n);
void adam_f32(float *w, float *m, float *v, float *bias, int32_t *count, const float *dw, const float *rate,
              const adam_options *o, int32_t n);
/* channel[i / inner % channels] turns a real step of element i into integer units */
void sgd_residual_s8(int8_t *w, int8_t *r, int32_t *count, const float *dw, const float *rate, float clip,
                     const float *channel, int32_t channels, int32_t inner, int32_t n);
void sgd_nearest_s8(int8_t *w, int32_t *count, const float *dw, const float *rate, float clip, const float *channel,
                    int32_t channels, int32_t inner, int32_t n);
void sgd_bias_s32(int32_t *b, int32_t *count, const float *db, const float *rate, float clip, const float *channel,
                  int32_t channels, int32_t inner, int32_t n);

uint32_t crc32(const uint8_t *data, uint32_t n);

#endif
