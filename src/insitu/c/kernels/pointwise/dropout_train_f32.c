/* y = factor x, or 0 where the upper 31 bits of the element's random number are below `threshold`. n elements, in place
 * allowed. The numbers depend only on the counter and the layer: the gradient draws the same ones.
 */
#include "kernels.h"
#include "numbers/random.h"

void dropout_train_f32(float *y, const float *x, const int32_t *counter, int32_t n, int32_t threshold, float factor,
                       int32_t layer)
{
    const uint32_t key = random_key(*counter, layer), limit = (uint32_t)threshold;
    for (int32_t i = 0; i < n; i++) {
        y[i] = random_at(key, i) >> 1 < limit ? 0.0f : factor * x[i];
    }
}
