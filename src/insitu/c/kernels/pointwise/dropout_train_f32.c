/* y = factor x, or 0 where the upper 31 bits of the element's random number are below `threshold`. `samples` parts of n
 * elements, in place allowed. The numbers of part s depend only on counter + s and the layer: the gradient draws the
 * same ones, and so does a sample alone.
 */
#include "kernels.h"
#include "numbers/mathf.h"
#include "numbers/random.h"

void dropout_train_f32(float *y, const float *x, const int32_t *counter, int32_t samples, int32_t n, int32_t threshold,
                       float factor, int32_t layer)
{
    const uint32_t limit = (uint32_t)threshold;
    for (int32_t s = 0; s < samples; s++, x += n, y += n) {
        const uint32_t key = random_key((int32_t)((uint32_t)*counter + (uint32_t)s), layer);
        for (int32_t i = 0; i < n; i++) {
            insitu_bits v; /* a choice of floats would not be vectorised */
            v.f = factor * x[i];
            v.u &= 0u - (uint32_t)(random_at(key, i) >> 1 >= limit);
            y[i] = v.f;
        }
    }
}
