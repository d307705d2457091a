/* Kernels on block floating gradients: mantissas m of two bytes (s16b) or one (s8b), then their exponents e, one a
 * block. Sums of products are s32b: int32 with one exponent for each group of channels. What each does stands in its
 * file.
 */
#ifndef INSITU_BLOCK_KERNELS_H
#define INSITU_BLOCK_KERNELS_H

#include <stdint.h>

#include "kernels/shapes.h"
#include "numbers/scales.h"
#include "training.h"

void from_block_s32b(float *g, const int32_t *m, const int8_t *e, float scale, int32_t n, int32_t channels,
                     int32_t inner);
void to_block_s16b(int16_t *m, int8_t *e, const float *g, int32_t rows, int32_t pixels, int32_t c);
void to_block_s8b(int8_t *m, int8_t *e, const float *g, int32_t rows, int32_t pixels, int32_t c);
void from_block_s16b(float *g, const int16_t *m, const int8_t *e, int32_t rows, int32_t pixels, int32_t c);
void from_block_s8b(float *g, const int8_t *m, const int8_t *e, int32_t rows, int32_t pixels, int32_t c);
void mask_grad_s16b(int16_t *y, const int16_t *m, const uint8_t *mask, int32_t rows, int32_t c);
void mask_grad_s8b(int8_t *y, const int8_t *m, const uint8_t *mask, int32_t rows, int32_t c);
void add_s16b(int16_t *m, int8_t *e, const int16_t *a, const int8_t *ae, const int16_t *b, const int8_t *be,
              int32_t rows, int32_t pixels, int32_t c);
void add_s8b(int8_t *m, int8_t *e, const int8_t *a, const int8_t *ae, const int8_t *b, const int8_t *be, int32_t rows,
             int32_t pixels, int32_t c);
void expand_s16b(int16_t *y, int8_t *ye, const int16_t *m, const int8_t *e, int32_t n, int32_t h, int32_t w, int32_t c,
                 int32_t share, int32_t k);
void expand_s8b(int8_t *y, int8_t *ye, const int8_t *m, const int8_t *e, int32_t n, int32_t h, int32_t w, int32_t c,
                int32_t share, int32_t k);
void bias_grad_s16b(int32_t *db, int8_t *de, const int16_t *m, const int8_t *e, int32_t rows, int32_t pixels,
                    int32_t c, int32_t room);
void bias_grad_s8b(int32_t *db, int8_t *de, const int8_t *m, const int8_t *e, int32_t rows, int32_t pixels, int32_t c,
                   int32_t room);
void conv2d_dx_s16b(int16_t *dx, int8_t *dxe, const int16_t *g, const int8_t *ge, const int8_t *w,
                    const int16_t *share, int32_t k, int32_t drop, const conv2d_shape *s, void *scratch);
void conv2d_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w, const int16_t *share,
                   int32_t k, int32_t drop, const conv2d_shape *s, void *scratch);
void conv2d_dw_s16b(int32_t *dw, int8_t *dwe, const int16_t *g, const int8_t *ge, const int8_t *x,
                    const int32_t *channels, int32_t count, int32_t zero, int32_t drop, const conv2d_shape *s,
                    void *scratch);
void conv2d_dw_s8b(int32_t *dw, int8_t *dwe, const int8_t *g, const int8_t *ge, const int8_t *x,
                   const int32_t *channels, int32_t count, int32_t zero, int32_t drop, const conv2d_shape *s,
                   void *scratch);
void depthwise2d_dx_s16b(int16_t *dx, int8_t *dxe, const int16_t *g, const int8_t *ge, const int8_t *w,
                         const int16_t *share, const weight_scales *source, const int16_t *k, int32_t rows,
                         const conv2d_shape *s, void *scratch);
void depthwise2d_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                        const int16_t *share, const weight_scales *source, const int16_t *k, int32_t rows,
                        const conv2d_shape *s, void *scratch);
void depthwise2d_dw_s16b(int32_t *dw, int8_t *dwe, const int16_t *g, const int8_t *ge, const int8_t *x, int32_t zero,
                         int32_t drop, const conv2d_shape *s, void *scratch);
void depthwise2d_dw_s8b(int32_t *dw, int8_t *dwe, const int8_t *g, const int8_t *ge, const int8_t *x, int32_t zero,
                        int32_t drop, const conv2d_shape *s, void *scratch);
void conv2d_pairs_dx_s16b(int16_t *dx, int8_t *dxe, const int16_t *g, const int8_t *ge, const int8_t *w,
                          const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share,
                          const weight_scales *source, int32_t k, int32_t drop, int32_t rows, const conv2d_shape *s,
                          void *scratch);
void conv2d_pairs_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                         const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share,
                         const weight_scales *source, int32_t k, int32_t drop, int32_t rows, const conv2d_shape *s,
                         void *scratch);
void conv2d_deep_dx_s16b(int16_t *dx, int8_t *dxe, const int16_t *g, const int8_t *ge, const int8_t *w,
                         const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share,
                         const weight_scales *source, int32_t k, int32_t drop, int32_t rows, int32_t depth,
                         const conv2d_shape *s, void *scratch);
void conv2d_pairs_dw_s16b(int32_t *dw, int8_t *dwe, const int16_t *g, const int8_t *ge, const int8_t *x,
                          const int32_t *channels, int32_t count, int32_t zero, int32_t drop, int32_t piece,
                          const conv2d_shape *s, void *scratch);
void depthwise2d_pairs_dw_s16b(int32_t *dw, int8_t *dwe, const int16_t *g, const int8_t *ge, const int8_t *x,
                               int32_t zero, int32_t drop, int32_t piece, const conv2d_shape *s, void *scratch);
void depthwise2d_pairs_dw_s8b(int32_t *dw, int8_t *dwe, const int8_t *g, const int8_t *ge, const int8_t *x,
                              int32_t zero, int32_t drop, int32_t piece, const conv2d_shape *s, void *scratch);
void conv2d_deep_dx_s8b(int8_t *dx, int8_t *dxe, const int8_t *g, const int8_t *ge, const int8_t *w,
                        const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share,
                        const weight_scales *source, int32_t k, int32_t drop, int32_t rows, int32_t depth,
                        const conv2d_shape *s, void *scratch);
void conv2d_pairs_dw_s8b(int32_t *dw, int8_t *dwe, const int8_t *g, const int8_t *ge, const int8_t *x,
                         const int32_t *channels, int32_t count, int32_t zero, int32_t drop, int32_t piece,
                         const conv2d_shape *s, void *scratch);
void conv2d_sum_dx_s16b(int32_t *acc, const int16_t *g, const int8_t *own, const int8_t *ge, const int8_t *w,
                        const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share, int32_t drop,
                        int32_t first, int32_t n, int32_t rows, int32_t step, const conv2d_shape *s, void *scratch);
void conv2d_store_dx_s16b(int16_t *dx, int8_t *dxe, const int32_t *acc, const int8_t *ge, int32_t og, int32_t by,
                          int32_t rows, int32_t pixels, int32_t channels, void *copy);
void conv2d_sum_dx_s8b(int32_t *acc, const int8_t *g, const int8_t *own, const int8_t *ge, const int8_t *w,
                       const int8_t *fixed, const int32_t *which, int32_t count, const int16_t *share, int32_t drop,
                       int32_t first, int32_t n, int32_t rows, int32_t step, const conv2d_shape *s, void *scratch);
void conv2d_store_dx_s8b(int8_t *dx, int8_t *dxe, const int32_t *acc, const int8_t *ge, int32_t og, int32_t by,
                         int32_t rows, int32_t pixels, int32_t channels, void *copy);

/* A gradient: sums m with an exponent for each group of channels. Element i belongs to channel i / inner % channels. */
typedef struct {
    const int32_t *m;
    const int8_t *e;
    float scale;
    int32_t n, channels, inner;
} block_gradient;

/* a whole number of 24 bits, and how far a product with it is shifted to the right */
typedef struct {
    int32_t whole, shift, endless;
} block_multiplier;

int32_t times_s32b(int32_t x, const block_multiplier *by, int32_t limit);
float squares_s32b(float sum, const block_gradient *g);
int32_t step_residual_s32b(int8_t *w, int8_t *r, const block_gradient *g, float rate, float factor, int32_t first,
                           const integer_update *u);
void sgd_residual_block_s8(int8_t *w, int8_t *r, int32_t *count, const int32_t *dw, const int8_t *e, const float *rate,
                           float scale, int32_t channels, int32_t inner, const integer_update *u);
void sgd_residual_block_tile_s8(int8_t *w, int8_t *r, int32_t *count, const int32_t *dw, const int8_t *e,
                                const float *rate, const float *norm, float scale, int32_t inner, int32_t first,
                                int32_t n, const integer_update *u);
void norm_tile_s32b(float *norm, const int32_t *dw, const int8_t *e, float scale, int32_t inner, int32_t first,
                    int32_t n);
void norm_factor_s32b(float *norm, int32_t *count, const float *rate, float clip);
void sgd_bias_block_s32(int32_t *b, int32_t *count, const int32_t *db, const int8_t *e, const float *rate, float scale,
                        int32_t channels, int32_t inner, const integer_update *u);

#endif
