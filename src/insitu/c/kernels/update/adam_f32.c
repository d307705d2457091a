/* Adam with decoupled decay, in place. bias = {1 - beta1^t, 1 - beta2^t} after t steps. */
#include "kernels.h"
#include "numbers/mathf.h"

void adam_f32(float *w, float *m, float *v, float *bias, int32_t *count, const float *dw, const float *rate,
              const adam_options *o, int32_t n)
{
    const float factor = clip_factor(dw, *rate, o->clip, count, n), step = *rate;
    if (factor == 0.0f) {
        return;
    }
    bias[0] = bias[0] * o->beta1 + o->rest1;
    bias[1] = bias[1] * o->beta2 + o->rest2;
    const float first = 1.0f / bias[0], second = 1.0f / bias[1];
    for (int32_t i = 0; i < n; i++) {
        const float d = factor * dw[i];
        m[i] = o->beta1 * m[i] + o->rest1 * d;
        v[i] = o->beta2 * v[i] + o->rest2 * d * d;
        w[i] -= step * (m[i] * first / (insitu_sqrtf(v[i] * second) + o->epsilon) + o->decay * w[i]);
    }
}
