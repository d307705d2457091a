/* Adam with decoupled decay, in place. bias = {1 - beta1^t, 1 - beta2^t} after t steps. Gradients below 2^-55 and
 * averages below 2^-110 are zero: see tiny.h.
 */
#include "kernels.h"
#include "kernels/update/tiny.h"
#include "numbers/mathf.h"

void adam_f32(float *w, float *m, float *v, float *bias, int32_t *count, const float *dw, const float *rate,
              const adam_options *options, int32_t n)
{
    const adam_options o = *options;
    const float factor = clip_factor(dw, *rate, o.clip, count, n), keep = 1.0f - *rate * o.decay;
    if (factor == 0.0f) {
        return;
    }
    bias[0] = bias[0] * o.beta1 + o.rest1;
    bias[1] = bias[1] * o.beta2 + o.rest2;
    const float step = *rate / bias[0], root = 1.0f / insitu_sqrtf(bias[1]);
    const float epsilon = o.epsilon + o.early * root;
    for (int32_t i = 0; i < n; i++) {
        const float d = without_tiny(factor * dw[i], TINY);
        const float first = without_tiny(o.beta1 * m[i] + o.rest1 * d, TINY_SQUARE);
        const float second = without_tiny_square(o.beta2 * v[i] + o.rest2 * d * d);
        w[i] = keep * w[i] - step * first / (root * insitu_sqrtf(second) + epsilon);
        m[i] = first;
        v[i] = second;
    }
}
