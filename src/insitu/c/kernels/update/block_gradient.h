/* Block floating gradients of parameters, as updates take them. Sums of products are s32b: int32 with one exponent for
 * each group of channels.
 */
#ifndef INSITU_BLOCK_GRADIENT_H
#define INSITU_BLOCK_GRADIENT_H

#include <stdint.h>

/* A gradient: sums m with one exponent per group of channels. Element i belongs to channel i / inner % channels. */
typedef struct {
    const int32_t *m;
    const int8_t *e;
    float scale;
    int32_t n, channels, inner;
} block_gradient;

/* an integer of 24 bits, and how far a product with it is shifted to the right */
typedef struct {
    int32_t whole, shift, endless;
} block_multiplier;

#endif
