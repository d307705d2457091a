/* A pixel of luma and two colour differences (less 128) as red, green, blue: BT.601 with luma 16 to 235, 8 fraction bits. */
#ifndef INSITU_YUV_H
#define INSITU_YUV_H

#include <stdint.h>

static inline uint8_t byte_of(int32_t x)
{
    x >>= 8;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

static inline void of_yuv(uint8_t *y, int32_t luma, int32_t u, int32_t v)
{
    const int32_t c = 298 * (luma - 16) + 128;
    y[0] = byte_of(c + 409 * v);
    y[1] = byte_of(c - 100 * u - 208 * v);
    y[2] = byte_of(c + 516 * u);
}

#endif
