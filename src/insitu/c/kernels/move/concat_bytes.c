/* Row r of y is row r of each input in turn: x_i[rows, bytes[i]] -> y[rows, sum of bytes]. Not in place. */
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

void concat_bytes(void *y, int32_t rows, int32_t count, const int32_t *bytes, ...)
{
    const int32_t total = row_bytes(bytes, count);
    char *to = y;
    va_list inputs;
    va_start(inputs, bytes);
    for (int32_t i = 0; i < count; to += bytes[i++]) {
        const char *from = va_arg(inputs, const void *);
        for (int32_t r = 0; r < rows; r++) {
            copy_bytes(to + r * total, from + r * bytes[i], bytes[i]);
        }
    }
    va_end(inputs);
}
