/* Arguments of updates other than arrays. count = {skipped, clipped, saturated} wherever an update has one; none
 * changes anything where the rate is 0 or not finite, or the gradient is not finite.
 */
#ifndef INSITU_OPTIONS_H
#define INSITU_OPTIONS_H

#include <stdint.h>

#include "numbers/scales.h"

typedef struct {
    float beta1, beta2, rest1, rest2, epsilon, decay, clip, early; /* rest = 1 - beta, exactly rounded */
} adam_options;

/* of an integer parameter with n elements: channel[i / inner % channels] converts a real step of element i to its unit;
 * if that is null, channel_scales_f32 computes it from scales, over and rest */
typedef struct {
    const float *channel;
    const weight_scales *scales;
    float over;
    int32_t rest;
    int32_t channels, inner, n;
    float clip, decay;
    int32_t stream; /* of its random numbers */
} integer_update;

#endif
