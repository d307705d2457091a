/* to[i] = s of channel first + i; if over is not 0, (over + rest / 2^23 of its last bit) / s, rounded once.
 * A float quotient is off by at most one in its last bit; the remainder, which fits in 32 bits, determines by how much.
 */
#include "kernels/update/update.h"
#include "numbers/scale_bits.h"

static void quotients(float *to, const weight_scales *s, float over, int32_t rest, int32_t channel, int32_t end)
{
    float_bits by, q;
    q.f = over;
    const uint32_t of = scale_mantissa(q.u), all = (of << 23) + (uint32_t)rest;
    for (; channel < end; channel++) {
        by.u = scale_bits(s, channel);
        q.f = over / by.f;
        const uint32_t m = scale_mantissa(by.u), less = of < m;
        const int32_t left = 2 * (int32_t)((all << less) - scale_mantissa(q.u) * m);
        q.u += (uint32_t)(left > (int32_t)m) - (uint32_t)(left < -(int32_t)m);
        *to++ = q.f;
    }
}

void channel_scales_f32(float *to, const weight_scales *s, float over, int32_t rest, int32_t first, int32_t n)
{
    if (over != 0.0f) {
        quotients(to, s, over, rest, first, first + n);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        float_bits found;
        found.u = scale_bits(s, first + i);
        to[i] = found.f;
    }
}
