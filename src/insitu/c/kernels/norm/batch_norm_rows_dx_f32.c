/* dx = scale r (h - dbias / count - n dscale / count), dscale = sum of h n, dbias = sum of h for each channel of x[rows,c];
 * n = (x - mean) r; h = g where lo < n scale + bias < hi, else 0. Scratch: 3 c floats. dx in place over g allowed.
 */
#include "kernels.h"
#include "kernels/norm/norm_rows.h"

/* a call for all channels of all rows, with a range of literal kind */
#define EACH(kind, ...)                                                     \
    NORM_EACH(rows, c, {                                                    \
        enum { clamps = kind };                                             \
        const norm_source n = {mean + o, factor + o, bias + o, lo, hi};     \
        __VA_ARGS__;                                                        \
    })
#define EACH_RANGE(...)                     \
    switch (norm_clamps(lo, hi)) {          \
    case 2: EACH(2, __VA_ARGS__) break;     \
    case 1: EACH(1, __VA_ARGS__) break;     \
    default: EACH(0, __VA_ARGS__) break;    \
    }

void batch_norm_rows_dx_f32(float *dx, float *dscale, float *dbias, const float *g, const float *x, const float *scale,
                            const float *bias, const float *mean, const float *rstd, int32_t rows, int32_t c, float lo,
                            float hi, void *scratch)
{
    float *factor = scratch, *slope = factor + c, *mean_g = slope + c;
    const float size = (float)rows;
    for (int32_t k = 0; k < c; k++) {
        factor[k] = rstd[k] * scale[k];
    }
    clear_f32(dscale, c);
    clear_f32(dbias, c);
    EACH_RANGE(norm_gradient_sums(clamps, V, dscale + o, dbias + o, g + at, x + at, &n, t))
    for (int32_t k = 0; k < c; k++) {
        dscale[k] *= rstd[k];
        slope[k] = dscale[k] * rstd[k] / size;
        mean_g[k] = dbias[k] / size;
    }
    EACH_RANGE(norm_gradient_apply(clamps, V, dx + at, g + at, x + at, mean_g + o, slope + o, &n, t))
}
