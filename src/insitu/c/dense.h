/* Convolutions, products, pools and reductions: the kernels that do the arithmetic. Included by kernels.h. */
#ifndef INSITU_DENSE_H
#define INSITU_DENSE_H

#include <stdint.h>

#include "kernels/shapes.h"
#include "numbers/requant.h"

void conv2d_f32(float *y, const float *x, const float *w, const float *b, int32_t panel, int32_t depth,
                const conv2d_shape *s, void *scratch);
void conv2d_packed_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s);
void conv2d_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t panel,
               int32_t tiles_bytes, const conv2d_shape *s, const requant *q, void *scratch);
void conv2d_grouped_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b,
                       const conv2d_shape *s, const requant *q, void *scratch);
void conv2d_pairs_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t tile,
                     int32_t outputs, const conv2d_shape *s, const requant *q, void *scratch);
void conv2d_parts_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *trained, const int8_t *fixed,
                     const int32_t *where, int32_t count, const int32_t *b, int32_t tile, int32_t outputs,
                     const conv2d_shape *s, const requant *q, void *scratch);
void conv2d_packed_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const int32_t *offset,
                      const conv2d_shape *s, const requant *q, void *scratch);
/* the bits of a mask must be zero before */
void requant_channel_s8(const channel_place *to, const int32_t *acc, int32_t n, const requant *q);
void conv_transpose2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s);
void depthwise2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s, void *scratch);
void depthwise2d_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const conv2d_shape *s,
                    const requant *q, void *scratch);
void depthwise2d_planes_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, int32_t band,
                           int32_t width, const conv2d_shape *s, const requant *q, void *scratch);
void depthwise2d_wide_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s);
void depthwise2d_wide_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const conv2d_shape *s,
                         const requant *q);
void linear_f32(float *y, const float *x, const float *w, const float *b, int32_t panel, int32_t depth,
                const linear_shape *s, void *scratch);
void linear_packed_f32(float *y, const float *x, const float *w, const float *b, const linear_shape *s);
void linear_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const linear_shape *s, const requant *q,
               void *scratch);
void linear_packed_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const int32_t *offset,
                      const linear_shape *s, const requant *q, int32_t tile, void *scratch);
void matmul_f32(float *y, const float *a, const float *b, const matmul_shape *s);
void matmul_s8(int8_t *y, uint8_t *mask, const int8_t *a, const int8_t *b, const matmul_shape *s, int32_t channels,
               const requant *q, void *scratch);
void max_pool2d_f32(float *y, const float *x, const conv2d_shape *s);
void max_pool2d_s8(int8_t *y, const int8_t *x, const conv2d_shape *s);
void avg_pool2d_f32(float *y, const float *x, const conv2d_shape *s, int32_t count_pad);
/* with a mask (see mask.h; else null), whether each value before the clamp lies within lo..hi */
void avg_pool2d_s8(int8_t *y, uint8_t *mask, const int8_t *x, const conv2d_shape *s, int32_t count_pad,
                   const requant *q, void *scratch);
void mean_f32(float *y, const float *x, const reduce_shape *s);
void mean_s8(int8_t *y, uint8_t *mask, const int8_t *x, const reduce_shape *s, int32_t channels, const requant *q,
             void *scratch);
void sum_reduce_f32(float *y, const float *x, const reduce_shape *s);
void amax_f32(float *y, const float *x, const reduce_shape *s);
void amax_s8(int8_t *y, const int8_t *x, const reduce_shape *s);

#endif
