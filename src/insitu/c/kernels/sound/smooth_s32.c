/* y[0] = x[0], y[t] = y[t-1] + share (x[t] - y[t-1]), rounded to nearest; x[sounds,h,width], y[sounds,oh,width].
 *
 * A call that does not begin a sound (pt = 0) finds the row above its first just before y, and that of x in front of x.
 */
#include "kernels.h"

void smooth_s32(int32_t *y, const int32_t *x, const sound_past *s)
{
    for (int32_t i = 0; i < s->sounds; i++) {
        const int32_t begun = s->pt ? s->width : 0;
        for (int32_t j = 0; j < begun; j++) {
            *y++ = *x++;
        }
        x += s->width - begun;
        for (int32_t j = begun; j < s->oh * s->width; j++, y++, x++) {
            const int32_t before = y[-s->width];
            *y = before + (int32_t)((((int64_t)*x - before) * s->share + 32768) >> 16);
        }
    }
}
