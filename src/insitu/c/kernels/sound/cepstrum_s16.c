/* y[f,c] = unit * (sum over b of rows[c,b] x[f,b] >> rough), exact sums of integers */
#include "kernels.h"

void cepstrum_s16(float *y, const int16_t *x, const int16_t *rows, int32_t frames, int32_t bands, int32_t count,
                  int32_t rough, float unit)
{
    for (int32_t f = 0; f < frames; f++, x += bands) {
        for (int32_t c = 0; c < count; c++) {
            int64_t sum = 0;
            for (int32_t b = 0; b < bands; b++) {
                sum += rows[c * bands + b] * x[b];
            }
            *y++ = (float)(int32_t)(sum >> rough) * unit;
        }
    }
}
