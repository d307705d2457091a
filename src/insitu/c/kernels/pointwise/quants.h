/* How sums and products of quantised values become int8 again, one struct for each way. Python fills them in. */
#ifndef INSITU_QUANTS_H
#define INSITU_QUANTS_H

#include <stdint.h>

/* y = clamp(((ma (a - a_zero) + mb (b - b_zero) + 2^(shift-1)) >> shift) + y_zero) */
typedef struct {
    int32_t a_zero, b_zero, y_zero, lo, hi;
    int32_t ma, mb, shift;
} sum_quant;

/* the same sum as in LiteRT: each term shifted left by 20 and rescaled, then the sum rescaled; sign is 1 or -1 */
typedef struct {
    int32_t a_zero, b_zero, y_zero, lo, hi;
    int32_t ma, mb, my, a_shift, b_shift, y_shift, sign;
} sum_litert_quant;

/* y = clamp(rescale((a - a_zero)(b - b_zero), m, shift) + y_zero); requantize_s8 has no b */
typedef struct {
    int32_t a_zero, b_zero, y_zero, lo, hi;
    int32_t m, shift;
} product_quant;

#endif
