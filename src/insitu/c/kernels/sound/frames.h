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

/* x[sounds,h,width]: oh rows of each sound are made; pt is 1 if the first of them is a sound's first, else h = oh + 1 and
 * the row before the first is in place. `share` of a new row has 16 fraction bits */
typedef struct {
    int32_t sounds, h, oh, pt, width, share;
} sound_past;

/* n elements: floor in the unit of x; gain, shift and root with 15 fraction bits, bias with 16, less with 10; tables of
 * 65 entries with 15 fraction bits: logs is log2(1 + i / 64), powers is 2^(i / 64) - 1 */
typedef struct {
    int32_t n, floor, gain, shift, bias, root, less;
    const uint16_t *logs;
    const uint16_t *powers;
} sound_ratio;

#endif
