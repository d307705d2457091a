/* Every kernel insitu has: one function a file of the same name, in kernels/.
 *
 * Arguments come in the order outputs, inputs, sizes, quantisation, scratch. Layout is NHWC.
 * No kernel allocates, recurses, keeps state, or reads outside the arrays it is given.
 */
#ifndef INSITU_KERNELS_H
#define INSITU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* sizes of a convolution: x[n,h,w,c], w[o,kh,kw,c/groups], y[n,oh,ow,o] */
typedef struct {
    int32_t n, h, w, c, oh, ow, o;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl, groups;
} conv2d_shape;

void conv2d_f32(float *y, const float *x, const float *w, const float *b, const conv2d_shape *s);
void relu_f32(float *y, const float *x, int32_t n);

#endif
