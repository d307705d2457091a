/* Every primitive of integers against its meaning in isa/scalar.h: random sizes, all values equal.
 *
 * Arrays have exactly the size that a primitive may touch, so that the address sanitizer sees any access beyond.
 * Prints the first difference and returns 1, or returns 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa/primitives.h"
#include "isa/tile.h"

enum { ROUNDS = 3000 };

static uint64_t seed = 88172645463325252u;

static uint32_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

static int32_t between(int32_t low, int32_t high)
{
    return low + (int32_t)(draw() % (uint32_t)(high - low + 1));
}

/* n random bytes */
static void *bytes(size_t n)
{
    uint8_t *p = malloc(n + !n);
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(draw() % 8 ? draw() : draw() % 2 ? 0x80 : 0x7f); /* -128 and 127 more often */
    }
    return p;
}

/* n random words of any magnitude */
static int32_t *words(int32_t n)
{
    int32_t *p = malloc((size_t)(n + !n) * sizeof *p);
    for (int32_t i = 0; i < n; i++) {
        p[i] = (int32_t)draw() >> between(0, 31);
    }
    return p;
}

/* multipliers and shifts of n channels, or one for all; now and then zero, or a shift that vectors leave to plain C */
static requant quant(int32_t n)
{
    int32_t *m = malloc((size_t)n * sizeof *m);
    int8_t *shift = malloc((size_t)n);
    requant q = {0, 0, between(-128, 127), between(-128, 0), between(1, 127), between(0, 1), between(0, 1), m, shift};
    const int32_t top = draw() % 8 ? -1 : 2;
    for (int32_t i = 0; i < n; i++) {
        m[i] = draw() % 16 ? between(1 << 30, INT32_MAX) : draw() % 2 ? 0 : 1 << 30;
        shift[i] = (int8_t)between(draw() % 4 ? -12 : -31, top);
    }
    return q;
}

static void unquant(requant q)
{
    free((void *)(uintptr_t)q.m);
    free((void *)(uintptr_t)q.shift);
}

static void must_be_equal(const char *what, const void *got, const void *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (((const uint8_t *)got)[i] != ((const uint8_t *)want)[i]) {
            printf("%s: byte %d of %d differs\n", what, (int)i, (int)n);
            exit(1);
        }
    }
}

static void *copy_of(const void *from, size_t n)
{
    return memcpy(malloc(n + !n), from, n);
}

static void check_rows(void)
{
    const int32_t n = between(1, 70);
    int32_t *acc = words(n), zero = between(-128, 127), a = between(-500, 500);
    int8_t *x = bytes((size_t)n), *other = bytes((size_t)n), *y = bytes((size_t)n), *z = copy_of(y, (size_t)n);
    int16_t *h = bytes(2 * (size_t)n), *g = copy_of(h, 2 * (size_t)n);
    const requant q = quant(n);
    requant_row(y, acc, &q, n);
    scalar_requant_row(z, acc, &q, n);
    must_be_equal("requant_row", y, z, (size_t)n);
    max_s8(y, x, n);
    scalar_max_s8(z, x, n);
    must_be_equal("max_s8", y, z, (size_t)n);
    raise_s8((uint8_t *)y, x, n);
    scalar_raise_s8((uint8_t *)z, x, n);
    must_be_equal("raise_s8", y, z, (size_t)n);
    const int32_t got = dot_s16s8(h, x, n), want = scalar_dot_s16s8(h, x, n);
    must_be_equal("dot_s16s8", &got, &want, 4);
    centre_s8(h, x, zero, n);
    scalar_centre_s8(g, x, zero, n);
    must_be_equal("centre_s8", h, g, 2 * (size_t)n);
    const sum_litert_quant s = {zero, between(-128, 127), q.y_zero, q.lo, q.hi, between(1 << 30, INT32_MAX), 1 << 30,
                                between(1 << 30, INT32_MAX), between(-9, 0), between(-9, 0), between(-25, -15),
                                draw() % 2 ? 1 : -1};
    sum_litert_run(y, x, other, n, &s);
    scalar_sum_litert_run(z, x, other, n, &s);
    must_be_equal("sum_litert_run", y, z, (size_t)n);
    for (int32_t i = 0; i < n; i++) {
        acc[i] >>= 4;
    }
    int32_t *sums = copy_of(acc, 4 * (size_t)n);
    axpy_s8(acc, x, zero, a, n);
    scalar_axpy_s8(sums, x, zero, a, n);
    must_be_equal("axpy_s8", acc, sums, 4 * (size_t)n);
    free(acc), free(x), free(other), free(y), free(z), free(h), free(g), free(sums), unquant(q);
}

/* far from overflow, as biases are */
static int32_t *small_words(int32_t n)
{
    int32_t *p = words(n);
    for (int32_t i = 0; i < n; i++) {
        p[i] >>= 8;
    }
    return p;
}

/* now and then with more inputs than are widened at once, or more outputs than are ready */
static void check_tile(void)
{
    const int32_t runs = between(1, 3), k4 = between(1, draw() % 16 ? 9 : 300), step = between(1, 4 * k4 + 3), rows = between(1, 16);
    const int32_t outs = draw() % 4 ? between(1, 50) : draw() % 4 ? 8 : between(250, 300);
    const int32_t y_row = (outs + 7) / 8 * 8 + 8 * (int32_t)(draw() % 2);
    const int32_t blocks = (outs + 15) / 16;
    const size_t size = (size_t)(rows * y_row), bits = (size_t)(rows * y_row / 8);
    const uint8_t *u[3];
    for (int32_t r = 0; r < 3; r++) {
        u[r] = bytes((size_t)((rows - 1) * step + 4 * k4));
    }
    int8_t *w = bytes((size_t)(blocks * runs * k4 * 64)), *y = bytes(size), *z = copy_of(y, size);
    uint8_t *mask = draw() % 2 ? bytes(bits) : NULL, *other = mask ? copy_of(mask, bits) : NULL;
    int32_t *b = draw() % 2 ? small_words(outs) : NULL, *c = draw() % 4 ? small_words(outs) : words(outs);
    const requant q = quant(outs);
    tile_ready ready;
    tile_any_ready_s8(&ready, rows, 4 * runs * k4, b, c, outs, &q);
    tile_any_s8(y, mask, y_row, u, runs, k4, step, rows, w, b, c, outs, &q, &ready);
    scalar_tile_s8(z, other, y_row, u, runs, k4, step, rows, w, b, c, outs, &q);
    must_be_equal("tile_s8", y, z, size);
    if (mask) {
        must_be_equal("tile_s8, mask", mask, other, bits);
    }
    for (int32_t r = 0; r < 3; r++) {
        free((void *)(uintptr_t)u[r]);
    }
    free(w), free(y), free(z), free(mask), free(other), free(b), free(c), unquant(q);
}

static void check_pixels(void)
{
    const int32_t k = 4 * between(1, draw() % 8 ? 20 : 100), count = between(1, draw() % 4 ? 20 : 200);
    const int32_t outs = draw() % 4 ? 8 * between(1, 6) : between(1, 50), y_row = (outs + 7) / 8 * 8 + 8 * (int32_t)(draw() % 2);
    const size_t size = (size_t)(count * y_row), bits = size / 8, n = (size_t)(count * k);
    int8_t *x = bytes(n), *w = bytes((size_t)((outs + 15) / 16 * k * 16)), *y = bytes(size), *z = copy_of(y, size);
    uint8_t *mask = draw() % 2 ? bytes(bits) : NULL, *other = mask ? copy_of(mask, bits) : NULL, *u = bytes(n);
    const uint8_t *run = u;
    int32_t *b = draw() % 2 ? words(outs) : NULL, *c = words(outs);
    const requant q = quant(outs);
    scalar_raise_s8(u, x, (int32_t)n);
    if (rows_any_s8(y, mask, y_row, x, k, count, w, b, c, outs, &q)) {
        scalar_tile_s8(z, other, y_row, &run, 1, k / 4, k, count, w, b, c, outs, &q);
    }
    must_be_equal("rows_s8", y, z, size);
    if (mask) {
        must_be_equal("rows_s8, mask", mask, other, bits);
    }
    free(x), free(u), free(w), free(y), free(z), free(mask), free(other), free(b), free(c), unquant(q);
}

static void check_depthwise(void)
{
    const int32_t k = between(0, 3), kh = k ? 3 : between(1, 7), kw = k ? 3 : between(1, 7);
    const int32_t c = draw() % 2 ? between(1, 40) : 8 * between(1, 4), width = between(1, 24);
    const depthwise_row t = {between(1, 20), c, kh, kw, between(1, 3), between(1, 2), between(0, 3), width};
    const size_t size = (size_t)(t.pixels * c), bits = (size_t)(t.pixels * ((c + 7) / 8));
    const int8_t *rows[7];
    for (int32_t u = 0; u < 7; u++) {
        rows[u] = draw() % 5 ? bytes((size_t)(width * c)) : NULL;
    }
    int8_t *pad = bytes((size_t)c), *w = bytes((size_t)(kh * kw * c)), *y = bytes(size), *z = copy_of(y, size);
    uint8_t *mask = draw() % 2 ? bytes(bits) : NULL, *other = mask ? copy_of(mask, bits) : NULL;
    int32_t *b = words(c);
    const requant q = quant(c);
    depthwise_row_s8(y, mask, rows, pad, w, b, &t, &q);
    scalar_depthwise_row_s8(z, other, rows, pad, w, b, &t, &q);
    must_be_equal("depthwise_row_s8", y, z, size);
    if (mask) {
        must_be_equal("depthwise_row_s8, mask", mask, other, bits);
    }
    for (int32_t u = 0; u < 7; u++) {
        free((void *)(uintptr_t)rows[u]);
    }
    free(pad), free(w), free(y), free(z), free(mask), free(other), free(b), unquant(q);
}

static void rows_of_images(int8_t *y, uint8_t *mask, const int8_t *x, const int8_t *w, const int32_t *b, const int8_t *pad,
                           const conv2d_shape *s, const requant *q)
{
    const depthwise_row t = {s->ow, s->c, s->kh, s->kw, s->sw, s->dw, s->pl, s->w};
    for (int32_t p = 0; p < s->n * s->oh; p++) {
        const int8_t *rows[9], *image = x + p / s->oh * s->h * s->w * s->c;
        for (int32_t u = 0; u < s->kh; u++) {
            const int32_t r = p % s->oh * s->sh + u * s->dh - s->pt;
            rows[u] = r >= 0 && r < s->h ? image + r * s->w * s->c : NULL;
        }
        scalar_depthwise_row_s8(y + p * s->ow * s->o, mask_row(mask, p * s->ow, s->o), rows, pad, w, b, &t, q);
    }
}

/* whole images: some are cut into bands, some have a window too large for them */
static void check_images(void)
{
    const int32_t k = between(0, 3), kh = k ? 3 : between(1, 9), kw = k ? 3 : between(1, 9), n = between(1, 2);
    const int32_t wide = draw() % 16 ? 24 : 600;
    const int32_t c = draw() % 2 ? between(1, 20) : 8 * between(1, 4), h = between(1, 24), w = between(1, wide);
    const conv2d_shape s = {n, h, w, c, between(1, 20), between(1, wide), c, kh, kw, between(1, 3), between(1, 3),
                            between(1, 2), between(1, 2), between(0, 3), between(0, 3), c};
    const size_t size = (size_t)(n * s.oh * s.ow * c), bits = (size_t)(n * s.oh * s.ow * ((c + 7) / 8));
    int8_t *x = bytes((size_t)(n * h * w * c)), *f = bytes((size_t)(kh * kw * c)), *y = bytes(size), *z = copy_of(y, size);
    uint8_t *mask = draw() % 2 ? bytes(bits) : NULL, *other = mask ? copy_of(mask, bits) : NULL;
    int8_t *pad = bytes((size_t)c);
    int32_t *b = words(c);
    requant q = quant(c);
    q.x_zero = between(-128, 127);
    memset(pad, q.x_zero, (size_t)c);
    if (depthwise_images_s8(y, mask, x, f, b, &s, &q)) {
        rows_of_images(z, other, x, f, b, pad, &s, &q);
    }
    must_be_equal("depthwise_images_s8", y, z, size);
    if (mask) {
        must_be_equal("depthwise_images_s8, mask", mask, other, bits);
    }
    free(x), free(pad), free(f), free(y), free(z), free(mask), free(other), free(b), unquant(q);
}

int main(void)
{
    for (int32_t i = 0; i < ROUNDS; i++) {
        check_rows();
        check_tile();
        check_depthwise();
        if (i % 10 == 0) {
            check_images();
            check_pixels();
        }
    }
    return 0;
}
