/* depthwise2d_dw_f32 with a 3x3 kernel. Not in place. */
#include "isa/windows.h"

#include "kernels.h"

void depthwise2d_windows_dw_f32(float *dw, const float *g, const float *x, const conv2d_shape *s)
{
    windows_dw_f32(dw, g, x, s);
}
