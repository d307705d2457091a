/* Sixteen numbers at a time, or fewer: nothing is read or written beyond those that count.
 *
 * Sixteen words are two vectors, in the order that packing turns into 0..15: words 0..3 and 8..11, 4..7 and 12..15.
 */
#ifndef INSITU_ISA_AVX2_SOME_H
#define INSITU_ISA_AVX2_SOME_H

#include "isa/avx2/intrinsics.h"

#include <stddef.h>
#include <stdint.h>

#include "isa/inline.h"

/* a vector that stays in a register inside a loop */
#define KEEP_VECTOR(a) __asm__("" : "+x"(a))

typedef struct {
    __m256i v[2];
} words16;

/* words 0..7 and 8..15 */
ALWAYS_INLINE words16 words_of(__m256i low, __m256i high)
{
    const words16 w = {{_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)}};
    return w;
}

ALWAYS_INLINE words16 add_words(words16 x, words16 y)
{
    const words16 sum = {{_mm256_add_epi32(x.v[0], y.v[0]), _mm256_add_epi32(x.v[1], y.v[1])}};
    return sum;
}

ALWAYS_INLINE words16 subtract_words(words16 x, words16 y)
{
    const words16 rest = {{_mm256_sub_epi32(x.v[0], y.v[0]), _mm256_sub_epi32(x.v[1], y.v[1])}};
    return rest;
}

ALWAYS_INLINE __m256i low_twice(__m256i x)
{
    return _mm256_permute2x128_si256(x, x, 0);
}

/* words 0..7, and the same again as 8..15 */
ALWAYS_INLINE words16 twice(words16 x)
{
    const words16 both = {{low_twice(x.v[0]), low_twice(x.v[1])}};
    return both;
}

/* the first n of eight lanes */
ALWAYS_INLINE __m256i first_lanes(int32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* the first n of sixteen words; the others are zero */
ALWAYS_INLINE words16 load_words(const int32_t *from, int32_t n)
{
    if (n >= 16) {
        return words_of(_mm256_loadu_si256((const __m256i *)from), _mm256_loadu_si256((const __m256i *)(from + 8)));
    }
    const int *p = (const int *)from;
    return words_of(_mm256_maskload_epi32(p, first_lanes(n)),
                    n > 8 ? _mm256_maskload_epi32(p + 8, first_lanes(n - 8)) : _mm256_setzero_si256());
}

ALWAYS_INLINE void store_words(int32_t *to, words16 x)
{
    _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(x.v[0], x.v[1], 0x20));
    _mm256_storeu_si256((__m256i *)(to + 8), _mm256_permute2x128_si256(x.v[0], x.v[1], 0x31));
}

/* fewer than eight bytes */
ALWAYS_INLINE int64_t few_bytes(const int8_t *from, int32_t n)
{
    uint32_t four = 0;
    uint16_t two = 0;
    uint64_t all = 0;
    if (n & 1) {
        all = (uint8_t)from[n - 1];
    }
    if (n & 2) {
        __builtin_memcpy(&two, from + (n & 4), 2);
        all = all << 16 | two;
    }
    if (n & 4) {
        __builtin_memcpy(&four, from, 4);
        all = all << 32 | four;
    }
    return (int64_t)all;
}

ALWAYS_INLINE int64_t eight_bytes(const int8_t *from)
{
    int64_t eight;
    __builtin_memcpy(&eight, from, 8);
    return eight;
}

/* the first n of sixteen bytes; the others are zero */
ALWAYS_INLINE __m128i load_bytes(const int8_t *from, int32_t n)
{
    if (n >= 16) {
        return _mm_loadu_si128((const __m128i *)from);
    }
    return n < 8 ? _mm_cvtsi64_si128(few_bytes(from, n))
                 : _mm_set_epi64x(few_bytes(from + 8, n - 8), eight_bytes(from));
}

ALWAYS_INLINE void store_bytes(int8_t *to, int32_t n, __m128i v)
{
    if (n >= 16) {
        _mm_storeu_si128((__m128i *)to, v);
        return;
    }
    if (n & 8) {
        _mm_storel_epi64((__m128i *)to, v);
        v = _mm_srli_si128(v, 8);
        to += 8;
    }
    uint64_t rest = (uint64_t)_mm_cvtsi128_si64(v);
    for (int32_t i = 0; i < (n & 7); i++, rest >>= 8) {
        to[i] = (int8_t)(uint8_t)rest;
    }
}

/* bytes as words */
ALWAYS_INLINE words16 widened(__m128i v)
{
    return words_of(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
}

#endif
