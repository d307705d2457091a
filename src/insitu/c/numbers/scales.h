/* The scales of a layer's weights, s_w, from its requantisation: m 2^(shift - 31) = s_x s_w / s_y.
 *
 *   s_w = m ratio 2^(shift + exponent - 187), rounded to 24 bits; ratio in [2^30, 2^31) is s_y / s_x 2^n
 *
 * 31 bits of a multiplier determine 24 of a float. When a program is made, every bit of the result is compared.
 */
#ifndef INSITU_SCALES_H
#define INSITU_SCALES_H

#include <stdint.h>

typedef struct {
    const int32_t *m;
    const int8_t *shift;
    int32_t ratio, exponent;
} weight_scales;

enum { SCALES_PIECE = 16 }; /* channels whose scales kernels compute at a time */

#endif
