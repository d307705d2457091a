/* y[i] = x[0] + .. + x[i] along the middle axis of x[outer,n,inner]; from the last element if `reverse`, without x[i]
 * if `exclusive`. In place allowed.
 */
#include "kernels.h"

void cumsum_f32(float *y, const float *x, int32_t outer, int32_t n, int32_t inner, int32_t reverse, int32_t exclusive)
{
    const int32_t first = reverse ? (n - 1) * inner : 0, step = reverse ? -inner : inner;
    for (int32_t r = 0; r < outer; r++, x += n * inner, y += n * inner) {
        for (int32_t j = 0; j < inner; j++) {
            float sum = 0.0f;
            for (int32_t i = 0, at = first + j; i < n; i++, at += step) {
                const float before = sum;
                sum += x[at];
                y[at] = exclusive ? before : sum;
            }
        }
    }
}
