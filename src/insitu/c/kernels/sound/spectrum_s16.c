/* y[f,k] = |sum over n of w[n] x[f hop + n] e^(-2 pi i k n / N)| for k < bins, in integers.
 *
 * The N reals are transformed as N / 2 complex numbers in scratch z[N] (re, im, re, ...), 4 N bytes: two passes without
 * products, then passes that halve; at last the pairs are split into half of the spectrum of the reals. Samples have 13
 * fraction bits at the start, so that no sum leaves 32 bits, whatever the window and the samples.
 */
#include "isa/bits.h"
#include "isa/sqrt.h"
#include "kernels.h"

/* the upper half of a b + c d: half of a product with 31 fraction bits */
static inline int32_t high(int32_t a, int32_t b, int32_t c, int32_t d)
{
    return (int32_t)(((int64_t)a * b + (int64_t)c * d) >> 32);
}

static inline int32_t high_less(int32_t a, int32_t b, int32_t c, int32_t d)
{
    return (int32_t)(((int64_t)a * b - (int64_t)c * d) >> 32);
}

/* samples times the window, in the order of reversed bits, followed by zeros */
static void weigh(int32_t *z, const int16_t *x, const sound_frames *s)
{
    const int32_t pairs = s->window / 2;
    for (int32_t j = 0; j < s->n / 2; j++) {
        int32_t *const to = z + 2 * s->order[j];
        const int32_t i = 2 * j;
        to[0] = j < pairs || i < s->window ? (x[i] * s->weights[i] + 2) >> 2 : 0;
        to[1] = j < pairs ? (x[i + 1] * s->weights[i + 1] + 2) >> 2 : 0;
    }
}

/* transforms of four numbers */
static void fours(int32_t *z, int32_t n)
{
    for (int32_t *const end = z + n; z < end; z += 8) {
        const int32_t ar = z[0] + z[2], ai = z[1] + z[3], br = z[0] - z[2], bi = z[1] - z[3];
        const int32_t cr = z[4] + z[6], ci = z[5] + z[7], dr = z[4] - z[6], di = z[5] - z[7];
        z[0] = ar + cr;
        z[1] = ai + ci;
        z[2] = br + di;
        z[3] = bi - dr;
        z[4] = ar - cr;
        z[5] = ai - ci;
        z[6] = br - di;
        z[7] = bi + dr;
    }
}

/* (a + w b) / 2 and (a - w b) / 2 for all a and b that are `half` numbers apart */
static void pass(int32_t *z, int32_t n, int32_t half, const int32_t *twiddles)
{
    const int32_t step = n / half;
    for (int32_t j = 0; j < half; j++, twiddles += step) {
        const int32_t wr = twiddles[0], wi = twiddles[1];
        for (int32_t *a = z + 2 * j; a < z + n; a += 4 * half) {
            int32_t *const b = a + 2 * half;
            const int32_t tr = high_less(b[0], wr, b[1], wi), ti = high(b[0], wi, b[1], wr);
            const int32_t ur = a[0] >> 1, ui = a[1] >> 1;
            a[0] = ur + tr;
            a[1] = ui + ti;
            b[0] = ur - tr;
            b[1] = ui - ti;
        }
    }
}

/* the root of re^2 + im^2: of its first 24 bits, correctly rounded, as an integer with a shift */
static inline int32_t amplitude(int32_t re, int32_t im)
{
    const uint64_t power = (uint64_t)((int64_t)re * re + (int64_t)im * im);
    const uint32_t upper = (uint32_t)(power >> 32);
    const int32_t bits = upper ? 32 + bit_length(upper) : bit_length((uint32_t)power);
    int32_t even = (64 - bits) & 0xfe;
    even = even > 62 ? 62 : even;
    const int32_t root = (int32_t)(insitu_sqrtf((float)(int32_t)((power << even) >> 40)) * 4096.0f);
    const int32_t down = even / 2 - 8;
    return down < 0 ? (int32_t)((uint32_t)root << -down) : root >> down;
}

/* from the transform of pairs to the spectrum of the reals */
static void split(int32_t *y, const int32_t *z, const sound_frames *s)
{
    const int32_t most = s->n / 2, bins = s->bins < most ? s->bins : most;
    for (int32_t k = 0; k < bins; k++) {
        const int32_t *const a = z + 2 * k, *const c = z + 2 * ((most - k) & (most - 1));
        const int32_t wr = s->twiddles[2 * k], wi = s->twiddles[2 * k + 1];
        const int32_t dr = a[0] - c[0], di = a[1] + c[1];
        const int32_t pr = high_less(dr, wr, di, wi), pi = high(dr, wi, di, wr);
        y[k] = amplitude(((a[0] + c[0]) >> 2) + (pi >> 1), ((a[1] - c[1]) >> 2) - (pr >> 1));
    }
    if (s->bins > most) {
        y[most] = amplitude((z[0] >> 1) - (z[1] >> 1), 0);
    }
}

void spectrum_s16(int32_t *y, const int16_t *x, const sound_frames *s, void *scratch)
{
    int32_t *const z = scratch;
    for (int32_t i = 0; i < s->sounds * s->frames; i++, y += s->bins) {
        weigh(z, x + (i / s->frames * s->rows + i % s->frames) * s->hop, s);
        fours(z, s->n);
        for (int32_t half = 4; half < s->n / 2; half *= 2) {
            pass(z, s->n, half, s->twiddles);
        }
        split(y, z, s);
    }
}
