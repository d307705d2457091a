/* Twins for x86 with AVX-512 (F, BW, DQ, VL) and VNNI. Equal to isa/scalar.h in every integer bit. */
#ifndef INSITU_ISA_AVX512_H
#define INSITU_ISA_AVX512_H

#include <immintrin.h>

#include "isa/avx512_requant.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* lanes 0..n-1 of sixteen */
ALWAYS_INLINE __mmask16 lanes16(int32_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);
}

ALWAYS_INLINE __mmask64 lanes64(int32_t n)
{
    return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
}

static inline float avx512_dot_f32(const float *a, const float *b, int32_t n)
{
    __m512 s0 = _mm512_setzero_ps(), s1 = s0;
    int32_t i = 0;
    for (; i + 32 <= n; i += 32) {
        s0 = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), s0);
        s1 = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16), _mm512_loadu_ps(b + i + 16), s1);
    }
    for (; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        s0 = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(k, a + i), _mm512_maskz_loadu_ps(k, b + i), s0);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(s0, s1));
}
#define dot_f32 avx512_dot_f32

static inline float avx512_sum_f32(const float *x, int32_t n)
{
    __m512 s = _mm512_setzero_ps();
    for (int32_t i = 0; i < n; i += 16) {
        s = _mm512_add_ps(s, _mm512_maskz_loadu_ps(lanes16(n - i), x + i));
    }
    return _mm512_reduce_add_ps(s);
}
#define sum_f32 avx512_sum_f32

static inline int32_t avx512_dot_s16s8(const int16_t *a, const int8_t *b, int32_t n)
{
    __m512i s = _mm512_setzero_si512();
    int32_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512i w = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(b + i)));
        s = _mm512_dpwssd_epi32(s, _mm512_loadu_si512(a + i), w);
    }
    if (i < n) {
        const __mmask32 k = (__mmask32)((1u << (n - i)) - 1u);
        const __m512i w = _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(k, b + i));
        s = _mm512_dpwssd_epi32(s, _mm512_maskz_loadu_epi16(k, a + i), w);
    }
    return _mm512_reduce_add_epi32(s);
}
#define dot_s16s8 avx512_dot_s16s8

static inline void avx512_axpy_f32(float *y, const float *x, float a, int32_t n)
{
    const __m512 f = _mm512_set1_ps(a);
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const __m512 sum = _mm512_fmadd_ps(f, _mm512_maskz_loadu_ps(k, x + i), _mm512_maskz_loadu_ps(k, y + i));
        _mm512_mask_storeu_ps(y + i, k, sum);
    }
}
#define axpy_f32 avx512_axpy_f32

static inline void avx512_axpy_s8(int32_t *y, const int8_t *x, int32_t zero, int32_t a, int32_t n)
{
    const __m512i f = _mm512_set1_epi32(a), z = _mm512_set1_epi32(zero);
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const __m512i v = _mm512_sub_epi32(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, x + i)), z);
        const __m512i sum = _mm512_add_epi32(_mm512_mullo_epi32(f, v), _mm512_maskz_loadu_epi32(k, y + i));
        _mm512_mask_storeu_epi32(y + i, k, sum);
    }
}
#define axpy_s8 avx512_axpy_s8

static inline void avx512_max_f32(float *y, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const __m512 top = _mm512_max_ps(_mm512_maskz_loadu_ps(k, x + i), _mm512_maskz_loadu_ps(k, y + i));
        _mm512_mask_storeu_ps(y + i, k, top);
    }
}
#define max_f32 avx512_max_f32

static inline void avx512_max_s8(int8_t *y, const int8_t *x, int32_t n)
{
    for (int32_t i = 0; i < n; i += 64) {
        const __mmask64 k = lanes64(n - i);
        const __m512i top = _mm512_max_epi8(_mm512_maskz_loadu_epi8(k, x + i), _mm512_maskz_loadu_epi8(k, y + i));
        _mm512_mask_storeu_epi8(y + i, k, top);
    }
}
#define max_s8 avx512_max_s8

static inline void avx512_centre_s8(int16_t *y, const int8_t *x, int32_t zero, int32_t n)
{
    const __m512i z = _mm512_set1_epi16((int16_t)zero);
    for (int32_t i = 0; i < n; i += 32) {
        const __mmask32 k = (__mmask32)lanes64(n - i);
        const __m512i v = _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(k, x + i));
        _mm512_mask_storeu_epi16(y + i, k, _mm512_sub_epi16(v, z));
    }
}
#define centre_s8 avx512_centre_s8

static inline void avx512_raise_s8(uint8_t *y, const int8_t *x, int32_t n)
{
    const __m512i top = _mm512_set1_epi8(-128);
    for (int32_t i = 0; i < n; i += 64) {
        const __mmask64 k = lanes64(n - i);
        _mm512_mask_storeu_epi8(y + i, k, _mm512_xor_si512(_mm512_maskz_loadu_epi8(k, x + i), top));
    }
}
#define raise_s8 avx512_raise_s8

static inline void avx512_requant_row(int8_t *y, const int32_t *acc, const requant *q, int32_t n)
{
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes16(n - i);
        const requant_lanes r = requant_load(q, i, k);
        requant_store(y + i, k, _mm512_maskz_loadu_epi32(k, acc + i), &r);
    }
}
#define requant_row avx512_requant_row

/* P rows by N blocks of sixteen outputs, all sums in registers */
ALWAYS_INLINE void tile_block_s8(const int P, const int N, int8_t *y, const uint8_t *u, int32_t k4, const int8_t *w,
                                 const int32_t *b, const int32_t *c, int32_t o, int32_t outs, const requant *q)
{
    __m512i acc[8][4];
    for (int j = 0; j < N; j++) {
        const __mmask16 k = lanes16(outs - o - 16 * j);
        __m512i start = _mm512_maskz_loadu_epi32(k, c + o + 16 * j);
        if (b) {
            start = _mm512_add_epi32(start, _mm512_maskz_loadu_epi32(k, b + o + 16 * j));
        }
        for (int p = 0; p < P; p++) {
            acc[p][j] = start;
        }
    }
    w += (ptrdiff_t)o * k4 * 4;
    for (int32_t k = 0; k < k4; k++) {
        __m512i wk[4];
        for (int j = 0; j < N; j++) {
            wk[j] = _mm512_loadu_si512(w + ((ptrdiff_t)j * k4 + k) * 64);
        }
        for (int p = 0; p < P; p++) {
            int32_t four;
            __builtin_memcpy(&four, u + (ptrdiff_t)p * 4 * k4 + 4 * k, 4);
            const __m512i x = _mm512_set1_epi32(four);
            for (int j = 0; j < N; j++) {
                acc[p][j] = _mm512_dpbusd_epi32(acc[p][j], x, wk[j]);
            }
        }
    }
    for (int j = 0; j < N; j++) {
        const __mmask16 k = lanes16(outs - o - 16 * j);
        const requant_lanes r = requant_load(q, o + 16 * j, k);
        for (int p = 0; p < P; p++) {
            requant_store(y + (ptrdiff_t)p * outs + o + 16 * j, k, acc[p][j], &r);
        }
    }
}

/* P rows, all outputs, N blocks at a time */
ALWAYS_INLINE void tile_rows_s8(const int P, const int N, int8_t *y, const uint8_t *u, int32_t k4, const int8_t *w,
                                const int32_t *b, const int32_t *c, int32_t outs, const requant *q)
{
    int32_t o = 0;
    for (; o + 16 * (N - 1) < outs; o += 16 * N) {
        tile_block_s8(P, N, y, u, k4, w, b, c, o, outs, q);
    }
    for (; o < outs; o += 16) {
        tile_block_s8(P, 1, y, u, k4, w, b, c, o, outs, q);
    }
}

static inline void avx512_tile_s8(int8_t *y, const uint8_t *u, int32_t rows, int32_t k4, const int8_t *w,
                                  const int32_t *b, const int32_t *c, int32_t outs, const requant *q)
{
    if (rows == 8) {
        tile_rows_s8(8, 2, y, u, k4, w, b, c, outs, q);
        return;
    }
    if (rows >= 4) {
        tile_rows_s8(4, 2, y, u, k4, w, b, c, outs, q);
        y += 4 * outs, u += 16 * k4, rows -= 4;
    }
    for (; rows > 0; rows--, y += outs, u += 4 * k4) {
        tile_rows_s8(1, 4, y, u, k4, w, b, c, outs, q);
    }
}
#define tile_s8 avx512_tile_s8

ALWAYS_INLINE void tile_block_f32(const int P, const int N, float *y, const float *u, int32_t u_step, int32_t k,
                                  const float *w, const float *b, int32_t o, int32_t outs)
{
    __m512 acc[8][4];
    for (int j = 0; j < N; j++) {
        const __m512 start =
            b ? _mm512_maskz_loadu_ps(lanes16(outs - o - 16 * j), b + o + 16 * j) : _mm512_setzero_ps();
        for (int p = 0; p < P; p++) {
            acc[p][j] = start;
        }
    }
    w += (ptrdiff_t)o * k;
    for (int32_t i = 0; i < k; i++) {
        for (int p = 0; p < P; p++) {
            const __m512 x = _mm512_set1_ps(u[(ptrdiff_t)p * u_step + i]);
            for (int j = 0; j < N; j++) {
                acc[p][j] = _mm512_fmadd_ps(x, _mm512_loadu_ps(w + ((ptrdiff_t)j * k + i) * 16), acc[p][j]);
            }
        }
    }
    for (int j = 0; j < N; j++) {
        for (int p = 0; p < P; p++) {
            _mm512_mask_storeu_ps(y + (ptrdiff_t)p * outs + o + 16 * j, lanes16(outs - o - 16 * j), acc[p][j]);
        }
    }
}

ALWAYS_INLINE void tile_rows_f32(const int P, const int N, float *y, const float *u, int32_t u_step, int32_t k,
                                 const float *w, const float *b, int32_t outs)
{
    int32_t o = 0;
    for (; o + 16 * (N - 1) < outs; o += 16 * N) {
        tile_block_f32(P, N, y, u, u_step, k, w, b, o, outs);
    }
    for (; o < outs; o += 16) {
        tile_block_f32(P, 1, y, u, u_step, k, w, b, o, outs);
    }
}

static inline void avx512_tile_f32(float *y, const float *u, int32_t u_step, int32_t rows, int32_t k, const float *w,
                                   const float *b, int32_t outs)
{
    if (rows == 8) {
        tile_rows_f32(8, 2, y, u, u_step, k, w, b, outs);
        return;
    }
    if (rows >= 4) {
        tile_rows_f32(4, 2, y, u, u_step, k, w, b, outs);
        y += 4 * outs, u += 4 * u_step, rows -= 4;
    }
    for (; rows > 0; rows--, y += outs, u += u_step) {
        tile_rows_f32(1, 4, y, u, u_step, k, w, b, outs);
    }
}
#define tile_f32 avx512_tile_f32

/* sixteen channels from o on of every pixel; KH and KW are the window if known (its weights stay in registers), else 0 */
ALWAYS_INLINE void depthwise_lanes_s8(const int KH, const int KW, const int centred, int8_t *y, const int8_t *x,
                                      const int8_t *w, const int32_t *b, const depthwise_run *t, int32_t zero,
                                      int32_t o, const requant *q)
{
    const int32_t kh = KH ? KH : t->kh, kw = KW ? KW : t->kw;
    const __mmask16 k = lanes16(t->c - o);
    const requant_lanes r = requant_load(q, o, k);
    const __m512i start = b ? _mm512_maskz_loadu_epi32(k, b + o) : _mm512_setzero_si512();
    /* the upper half of each weight is zero, so that dpwssd adds one product and not two */
    const __m512i low = _mm512_set1_epi32(0xffff), z = _mm512_set1_epi32(zero);
    __m512i held[9];
    for (int i = 0; i < KH * KW; i++) {
        const int8_t *from = w + i / (KW ? KW : 1) * t->w_row + i % (KW ? KW : 1) * t->c + o;
        held[i] = _mm512_and_si512(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, from)), low);
    }
    for (int32_t p = 0; p < t->pixels; p++) {
        const int8_t *at = x + (ptrdiff_t)p * t->step + o;
        __m512i acc = start;
        for (int32_t i = 0; i < kh; i++) {
            for (int32_t j = 0; j < kw; j++) {
                __m512i v = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, at + i * t->row + j * t->col));
                v = centred ? v : _mm512_sub_epi32(v, z);
                const __m512i f =
                    KH ? held[i * KW + j]
                       : _mm512_and_si512(
                             _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(k, w + i * t->w_row + j * t->c + o)), low);
                acc = _mm512_dpwssd_epi32(acc, v, f);
            }
        }
        requant_store(y + (ptrdiff_t)p * t->c + o, k, acc, &r);
    }
}

static inline void avx512_depthwise_run_s8(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *b,
                                           const depthwise_run *t, int32_t zero, const requant *q)
{
    for (int32_t o = 0; o < t->c; o += 16) {
        if (t->kh == 3 && t->kw == 3 && zero == 0) {
            depthwise_lanes_s8(3, 3, 1, y, x, w, b, t, zero, o, q);
        } else {
            depthwise_lanes_s8(0, 0, 0, y, x, w, b, t, zero, o, q);
        }
    }
}
#define depthwise_run_s8 avx512_depthwise_run_s8

static inline void avx512_depthwise_run_f32(float *y, const float *x, const float *w, const float *b,
                                            const depthwise_run *t)
{
    for (int32_t o = 0; o < t->c; o += 16) {
        const __mmask16 k = lanes16(t->c - o);
        const __m512 start = b ? _mm512_maskz_loadu_ps(k, b + o) : _mm512_setzero_ps();
        for (int32_t p = 0; p < t->pixels; p++) {
            __m512 acc = start;
            for (int32_t i = 0; i < t->kh; i++) {
                const float *xs = x + (ptrdiff_t)p * t->step + i * t->row + o, *ws = w + i * t->w_row + o;
                for (int32_t j = 0; j < t->kw; j++, xs += t->col, ws += t->c) {
                    acc = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(k, xs), _mm512_maskz_loadu_ps(k, ws), acc);
                }
            }
            _mm512_mask_storeu_ps(y + (ptrdiff_t)p * t->c + o, k, acc);
        }
    }
}
#define depthwise_run_f32 avx512_depthwise_run_f32

#endif
