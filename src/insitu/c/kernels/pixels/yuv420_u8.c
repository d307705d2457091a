/* Red, green, blue y[rows, width] of luma[rows, width] and of colours that two pixels of a row share: row i has those of
 * row at[i]. format 0: rows of width / 2 of u and of v; 1: u and v in turn; 2: v and u in turn, both in `u` and `v`. */
#include "kernels.h"
#include "kernels/pixels/yuv.h"

void yuv420_u8(uint8_t *y, const uint8_t *luma, const uint8_t *u, const uint8_t *v, const int32_t *at, int32_t rows,
               int32_t width, int32_t format)
{
    const int32_t step = format == 0 ? 1 : 2, row = width / 2 * step;
    const int32_t u_first = format == 2, v_first = format == 1;
    for (int32_t i = 0; i < rows; i++) {
        const uint8_t *const u_row = u + at[i] * row + u_first, *const v_row = v + at[i] * row + v_first;
        for (int32_t j = 0; j < width / 2; j++, y += 6, luma += 2) {
            const int32_t du = u_row[j * step] - 128, dv = v_row[j * step] - 128;
            of_yuv(y, luma[0], du, dv);
            of_yuv(y + 3, luma[1], du, dv);
        }
    }
}
