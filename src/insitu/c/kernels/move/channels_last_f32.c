/* y[n,p,k] = x[n,k,p]: planes of pixels to pixels with their few channels side by side. Not in place. */
#include "isa/inline.h"
#include "isa/thirds.h"
#include "kernels.h"

ALWAYS_INLINE void image_last(const int channels, float *y, const float *x, int32_t pixels)
{
    for (int32_t p = 0; p < pixels; p++) {
        UNROLL
        for (int k = 0; k < channels; k++) {
            y[p * channels + k] = x[k * pixels + p];
        }
    }
}

void channels_last_f32(float *restrict y, const float *restrict x, int32_t n, int32_t channels, int32_t pixels)
{
    const int32_t step = channels * pixels;
    for (int32_t i = 0; i < n; i++, y += step, x += step) {
        switch (channels) {
        case 2: image_last(2, y, x, pixels); break;
        case 3: thirds_f32(y, x, pixels); break;
        default: image_last(4, y, x, pixels); break;
        }
    }
}
