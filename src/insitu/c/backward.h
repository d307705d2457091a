/* Kernels of the backward pass. Gradients g are f32 in real units; an s8 operand comes with its scale. */
#ifndef INSITU_BACKWARD_H
#define INSITU_BACKWARD_H

#include <stdint.h>

#include "kernels/shapes.h"
#include "numbers/scales.h"

void conv2d_dx_f32(float *dx, const float *g, const float *w, const conv2d_shape *s);
void conv2d_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, int32_t piece, const conv2d_shape *s,
                  void *scratch);
void conv2d_dw_f32(float *dw, const float *g, const float *x, const int32_t *channels, int32_t count,
                   int32_t piece, const conv2d_shape *s, void *scratch);
void conv2d_dw_s8(float *dw, const float *g, const int8_t *x, const int32_t *channels, int32_t count, int32_t piece,
                  float scale, int32_t zero, const conv2d_shape *s, void *scratch);
/* as many outputs as inputs; the wide ones: several outputs for each input */
void depthwise2d_dx_f32(float *dx, const float *g, const float *w, const conv2d_shape *s, void *scratch);
void depthwise2d_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, const conv2d_shape *s,
                       void *scratch);
void depthwise2d_gather_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale,
                              const weight_scales *source, int32_t over, const conv2d_shape *s, void *scratch);
void depthwise2d_dw_f32(float *dw, const float *g, const float *x, const conv2d_shape *s, void *scratch);
void depthwise2d_dw_s8(float *dw, const float *g, const int8_t *x, float scale, int32_t zero, const conv2d_shape *s,
                       void *scratch);
void depthwise2d_wide_dx_f32(float *dx, const float *g, const float *w, const conv2d_shape *s);
void depthwise2d_wide_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, const conv2d_shape *s,
                            void *scratch);
void depthwise2d_wide_dw_f32(float *dw, const float *g, const float *x, const conv2d_shape *s);
void depthwise2d_wide_dw_s8(float *dw, const float *g, const int8_t *x, float scale, int32_t zero,
                            const conv2d_shape *s);
void linear_dx_f32(float *dx, const float *g, const float *w, const linear_shape *s);
void linear_dx_s8(float *dx, const float *g, const int8_t *w, const float *scale, int32_t piece, const linear_shape *s,
                  void *scratch);
void linear_dw_f32(float *dw, const float *g, const float *x, const linear_shape *s);
void linear_dw_s8(float *dw, const float *g, const int8_t *x, float scale, int32_t zero, const linear_shape *s);
void linear_fours_dx_s8(float *dx, const float *g, const int8_t *w, const int8_t *fixed, const int32_t *where,
                        int32_t count, const float *scale, const weight_scales *source, int32_t tile, int32_t depth,
                        const linear_shape *s, void *scratch);
void linear_fours_dw_s8(float *dw, const float *g, const int8_t *x, const int32_t *channels, int32_t count,
                        int32_t piece, float scale, int32_t zero, const linear_shape *s, void *scratch);
void conv2d_fours_dw_s8(float *dw, const float *g, const int8_t *x, const int32_t *channels, int32_t count,
                        int32_t piece, float scale, int32_t zero, const conv2d_shape *s, void *scratch);
void bias_grad_f32(float *db, const float *g, int32_t rows, int32_t n);

#endif
