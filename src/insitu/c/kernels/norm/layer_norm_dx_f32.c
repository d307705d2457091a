/* dx = r (h - mean of h - x^ mean of h x^) for each row of x[rows,n], h = g scale, x^ = (x - mean) r,
 * r = 1 / sqrt(var + epsilon); scale may be null. In place over g allowed.
 */
#include "kernels.h"
#include "kernels/norm/row_norm.h"

static inline float scaled(const float *g, const float *scale, int32_t i)
{
    return scale ? g[i] * scale[i] : g[i];
}

void layer_norm_dx_f32(float *dx, const float *g, const float *x, const float *scale, int32_t rows, int32_t n,
                       float epsilon)
{
    for (int32_t r = 0; r < rows; r++, x += n, g += n, dx += n) {
        const row_norm norm = row_norm_of(x, n, epsilon);
        float sum[8] = {0.0f}, product[8] = {0.0f};
        for (int32_t i = 0; i < n; i++) {
            const float h = scaled(g, scale, i);
            sum[i & 7] += h;
            product[i & 7] += h * ((x[i] - norm.mean) * norm.factor);
        }
        const float a = insitu_sumf(sum, 8) / (float)n, b = insitu_sumf(product, 8) / (float)n;
        for (int32_t i = 0; i < n; i++) {
            dx[i] = norm.factor * (scaled(g, scale, i) - a - (x[i] - norm.mean) * norm.factor * b);
        }
    }
}
