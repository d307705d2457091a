/* dx = g f'(x), f(x) = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, n elements. In place over g allowed. */
#include "kernels.h"
#include "numbers/mathf.h"

void gelu_tanh_dx_f32(float *dx, const float *g, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const float v = insitu_clamp(x[i], -30.0f, 30.0f), s = v * v;
        const float t = insitu_tanhf(0.797884561f * v * (1.0f + 0.044715f * s));
        const float inner = 0.797884561f * (1.0f + 0.134145f * s);
        dx[i] = g[i] * (0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * inner);
    }
}
