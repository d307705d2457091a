/* Products and sums of rows of many sizes (isa/matrix.h, isa/add_rows.h), a line each with a hash of their bits: every
 * machine must print the same lines.
 *
 * Arrays are as long as they have to be and no longer, so that a sanitizer finds what is read or written beyond them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "isa/add_rows.h"
#include "isa/matrix.h"

static uint32_t seed = 1;

static float draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)(seed >> 8) / 16777216.0f - 0.5f;
}

static float *floats(int32_t n)
{
    float *x = malloc((size_t)n * sizeof(float));
    for (int32_t i = 0; i < n; i++) {
        x[i] = draw();
    }
    return x;
}

static int8_t *bytes(int32_t n)
{
    int8_t *x = malloc((size_t)n);
    for (int32_t i = 0; i < n; i++) {
        x[i] = (int8_t)(255.0f * draw());
    }
    return x;
}

static uint64_t hash(const void *data, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ ((const uint8_t *)data)[i]) * 1099511628211u;
    }
    return h;
}

/* y[rows,cols] of a[rows,depth], or of its transpose, and b[depth,cols] */
static void product(const int wide, int32_t rows, int32_t cols, int32_t depth, int turned)
{
    const matrix_shape m = {rows, cols, depth, cols, 0, turned ? 1 : depth, turned ? rows : 1, cols};
    float *y = floats(rows * cols), *start = floats(cols), *a = floats(rows * depth), *more = floats(rows * cols);
    void *b = wide ? (void *)floats(depth * cols) : (void *)bytes(depth * cols);
    const matrix_run run = {a, b};
    const matrix_end end = end_of(more, -0.5f, 2.0f);
    matrix_any(wide, y, start, &run, 1, 3, &end, &m);
    printf("%d: %d x %d x %d: %016llx\n", wide, (int)rows, (int)cols, (int)depth,
           (unsigned long long)hash(y, (size_t)(rows * cols) * sizeof(float)));
    free(y), free(start), free(a), free(more), free(b);
}

/* y[cols] of x[rows,cols] */
static void sum(int32_t rows, int32_t cols)
{
    float *y = floats(cols), *x = floats(rows * cols);
    add_rows_f32(y, x, cols, rows, cols);
    printf("sum: %d x %d: %016llx\n", (int)rows, (int)cols, (unsigned long long)hash(y, (size_t)cols * sizeof(float)));
    free(y), free(x);
}

static void products(int32_t cols, int32_t step)
{
    for (int32_t rows = 1; rows < 28; rows += step) {
        product(1, rows, cols, 9, 1);
        product(0, rows, cols, 3, 0);
        product(MATRIX_ENDS, rows, cols, cols % 5 ? 4 : 131, 0);
    }
}

int main(void)
{
    for (int32_t cols = 1; cols < 68; cols++) {
        products(cols, cols % 8 ? 5 : 1);
        sum(7, cols);
    }
    products(112, 3); /* seven vectors of sixteen, eight of them, and a part of the ninth */
    products(128, 3);
    products(141, 3);
    sum(3, 141);
    return 0;
}
