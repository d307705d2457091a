/* Sizes and tables of kernels that listen. Python fills them in (ops/sound.py). */
#ifndef INSITU_SOUND_FRAMES_H
#define INSITU_SOUND_FRAMES_H

#include <stdint.h>

/* x[sounds,rows,hop]: `frames` windows of each sound, `hop` samples apart; a transform of n reals, a power of two. weights[window]
 * have 15 fraction bits; twiddles[n / 2] are cos and -sin of 2 pi k / n with 31; order[n / 2] is the bit reversal */
typedef struct {
    int32_t sounds, rows, frames, hop, window, n, bins;
    const int16_t *weights;
    const int32_t *twiddles;
    const uint16_t *order;
} sound_frames;

/* bands of amplitudes: spans[bands] are the first bin and the number of bins; weights have 15 fraction bits; `floor` is
 * added to a sum, `shift` to its logarithm; logs[65] is log2(1 + i / 64) with 15 fraction bits */
typedef struct {
    int32_t frames, bins, bands, power, shift;
    int64_t floor;
    const uint16_t *spans;
    const uint16_t *weights;
    const uint16_t *logs;
} sound_bands;

#endif
