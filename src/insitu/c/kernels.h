/* Every kernel insitu has: one function a file of the same name, in kernels/.
 *
 * Arguments come in the order outputs, inputs, sizes, quantisation, scratch. Layout is NHWC.
 * No kernel allocates, recurses, keeps state, or reads outside the arrays it is given.
 */
#ifndef INSITU_KERNELS_H
#define INSITU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "backward.h"
#include "block_kernels.h"
#include "dense.h"
#include "elementwise.h"
#include "gradients.h"
#include "kernels/depthwise/taps.h"
#include "kernels/linear/products.h"
#include "kernels/shapes.h"
#include "training.h"

#endif
