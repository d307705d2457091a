/* dx = scale r (g - dbias / count - n dscale / count), dscale = sum of g n, dbias = sum of g for each channel of
 * x[outer,c,inner]; n = (x - mean) r. Scratch: 2 c floats. dx in place over g allowed.
 */
#include "kernels.h"
#include "kernels/norm/channel_sum.h"

static void sums(float *dscale, float *dbias, const float *g, const float *x, const float *mean, int32_t outer,
                 int32_t c, int32_t inner, float *part)
{
    float *products = part + c;
    clear_f32(dscale, c);
    clear_f32(dbias, c);
    clear_f32(part, 2 * c);
    for (int32_t r = 0; r < outer; r++, g += c * inner, x += c * inner) {
        for (int32_t k = 0; inner == 1 && k < c; k++) {
            part[k] += g[k];
            products[k] += g[k] * (x[k] - mean[k]);
        }
        for (int32_t k = 0; inner > 1 && k < c; k++) {
            float row = 0.0f, product = 0.0f;
            for (int32_t i = k * inner; i < (k + 1) * inner; i++) {
                row += g[i];
                product += g[i] * (x[i] - mean[k]);
            }
            part[k] += row;
            products[k] += product;
        }
        channel_flush(dbias, part, c, r, outer);
        channel_flush(dscale, products, c, r, outer);
    }
}

void batch_norm_train_dx_f32(float *dx, float *dscale, float *dbias, const float *g, const float *x, const float *scale,
                             const float *mean, const float *rstd, int32_t outer, int32_t c, int32_t inner,
                             void *scratch)
{
    float *factor = scratch, *slope = factor + c;
    const float count = (float)(outer * inner);
    sums(dscale, dbias, g, x, mean, outer, c, inner, factor);
    for (int32_t k = 0; k < c; k++) {
        dscale[k] *= rstd[k];
        factor[k] = scale[k] * rstd[k];
        slope[k] = dscale[k] * rstd[k] / count;
    }
    for (int32_t r = 0; r < outer; r++, g += c * inner, x += c * inner, dx += c * inner) {
        for (int32_t k = 0; inner == 1 && k < c; k++) {
            dx[k] = factor[k] * (g[k] - dbias[k] / count - (x[k] - mean[k]) * slope[k]);
        }
        for (int32_t k = 0; inner > 1 && k < c; k++) {
            for (int32_t i = k * inner; i < (k + 1) * inner; i++) {
                dx[i] = factor[k] * (g[i] - dbias[k] / count - (x[i] - mean[k]) * slope[k]);
            }
        }
    }
}
