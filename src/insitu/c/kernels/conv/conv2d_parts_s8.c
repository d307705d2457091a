/* conv2d_pairs_s8 with a weight in two parts: channel c of an output's taps is channel where[c] of `trained`, which has
 * `count`, or, if that is negative, channel -1 - where[c] of `fixed`.
 * The weights of `outputs` outputs, a multiple of eight, are assembled at a time, each once.
 * Scratch: 48 bytes, those weights, outputs kh kw c bytes rounded up to a multiple of sixteen, then that of
 * conv2d_pairs_s8. Not in place.
 */
#include "kernels.h"

void conv2d_parts_s8(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *trained, const int8_t *fixed,
                     const int32_t *where, int32_t count, const int32_t *b, int32_t tile, int32_t outputs,
                     const conv2d_shape *s, const requant *q, void *scratch)
{
    const int32_t taps = s->kh * s->kw;
    requant *part = scratch; /* not on the stack, which is smaller */
    int8_t *w = (int8_t *)scratch + 48, *rest = w + (outputs * taps * s->c + 15) / 16 * 16;
    *part = *q;
    clear_mask(mask, s->n * s->oh * s->ow * ((s->o + 7) / 8));
    for (int32_t o = 0; o < s->o; o += outputs) {
        const int32_t some = s->o - o < outputs ? s->o - o : outputs;
        merge_channels_b1(w, trained + o * taps * count, fixed + o * taps * (s->c - count), where, some * taps, s->c, count);
        part->m = q->m + o * q->step;
        part->shift = q->shift + o * q->step;
        conv2d_pairs_s8(y + o, mask ? mask + o / 8 : NULL, x, w, b ? b + o : NULL, tile, some, s, part, rest);
    }
}
