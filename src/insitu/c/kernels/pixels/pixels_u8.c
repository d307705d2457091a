/* y[i] = red, green, blue of pixel i; format 0: bgr, 1: rgb565 with the lower byte first, 2: upper first, 3: yuyv, 4: uyvy */
#include "kernels.h"
#include "kernels/pixels/yuv.h"

static void of_565(uint8_t *y, uint32_t word)
{
    const uint32_t r = word >> 11, g = word >> 5 & 63u, b = word & 31u;
    y[0] = (uint8_t)(r << 3 | r >> 2);
    y[1] = (uint8_t)(g << 2 | g >> 4);
    y[2] = (uint8_t)(b << 3 | b >> 2);
}

void pixels_u8(uint8_t *y, const uint8_t *x, int32_t n, int32_t format)
{
    if (format == 0) {
        for (int32_t i = 0; i < 3 * n; i += 3) {
            const uint8_t blue = x[i];
            y[i + 1] = x[i + 1];
            y[i] = x[i + 2];
            y[i + 2] = blue;
        }
    } else if (format < 3) {
        const int32_t upper = format == 1;
        for (int32_t i = 0; i < n; i++) {
            of_565(y + 3 * i, (uint32_t)x[2 * i + upper] << 8 | x[2 * i + 1 - upper]);
        }
    } else {
        const int32_t luma = format == 4, chroma = 1 - luma;
        for (int32_t i = 0; i < n; i += 2, x += 4) {
            const int32_t u = x[chroma] - 128, v = x[chroma + 2] - 128;
            of_yuv(y + 3 * i, x[luma], u, v);
            of_yuv(y + 3 * i + 3, x[luma + 2], u, v);
        }
    }
}
