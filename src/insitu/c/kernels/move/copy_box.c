/* A box of elements from one strided place to another: slices, transposes, the inside of a pad. Not in place. */
#include "kernels.h"

/* Four bytes are read before any is written: compilers make this one load and one store. */
static inline void copy_4(char *y, const char *x)
{
    const char a = x[0], b = x[1], c = x[2], d = x[3];
    y[0] = a;
    y[1] = b;
    y[2] = c;
    y[3] = d;
}

/* n items along the innermost dimension */
static void copy_line(char *y, const char *x, int32_t n, int32_t y_step, int32_t x_step, int32_t item)
{
    if (item == 1) {
        for (int32_t i = 0; i < n; i++) {
            y[i * y_step] = x[i * x_step];
        }
    } else if (item == 4) {
        for (int32_t i = 0; i < n; i++) {
            copy_4(y + i * y_step, x + i * x_step);
        }
    } else {
        for (int32_t i = 0; i < n; i++) {
            copy_bytes(y + i * y_step, x + i * x_step, item);
        }
    }
}

void copy_box(void *y, const void *x, const box_shape *s)
{
    char *to = (char *)y + s->y_offset;
    const char *from = (const char *)x + s->x_offset;
    int32_t index[6] = {0}, d = 0;
    const int32_t last = s->rank - 1;
    do {
        copy_line(to, from, s->size[last], s->y[last], s->x[last], s->item);
        for (d = last - 1; d >= 0; d--) { /* one line further, like an odometer */
            to += s->y[d];
            from += s->x[d];
            if (++index[d] < s->size[d]) {
                break;
            }
            index[d] = 0;
            to -= s->y[d] * s->size[d];
            from -= s->x[d] * s->size[d];
        }
    } while (d >= 0);
}
