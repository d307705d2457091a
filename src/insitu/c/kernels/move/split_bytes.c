/* Row r of x is cut into row r of each output: x[rows, sum of bytes] -> y_i[rows, bytes[i]]. Not in place. */
#include <stdarg.h>

#include "kernels.h"

static int32_t row_bytes(const int32_t *bytes, int32_t count)
{
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        total += bytes[i];
    }
    return total;
}

void split_bytes(const void *x, int32_t rows, int32_t count, const int32_t *bytes, ...)
{
    const int32_t total = row_bytes(bytes, count);
    const char *from = x;
    va_list outputs;
    va_start(outputs, bytes);
    for (int32_t i = 0; i < count; from += bytes[i++]) {
        char *to = va_arg(outputs, void *);
        for (int32_t r = 0; r < rows; r++) {
            copy_bytes(to + r * bytes[i], from + r * total, bytes[i]);
        }
    }
    va_end(outputs);
}
