/* Softmax of each row of x[rows,n] in fixed point; the result has scale 1/256 and zero point -128. In place allowed.
 * Differences to the maximum are rescaled (m, left) to 5 integer bits; those below diff_min count as zero. exp is a
 * polynomial on a quarter and one factor per higher bit, the reciprocal of the sum three Newton steps.
 */
#include "kernels.h"
#include "numbers/fixed.h"

#define DIFF_BITS 5
#define SUM_BITS 12
#define QUARTER (1 << (31 - DIFF_BITS - 2))

/* exp(a) in Q31 for a in [-1/4, 0), Q31: Taylor around -1/8 */
static int32_t exp_on_quarter(int32_t a)
{
    const int32_t x = a + (1 << 28);
    const int32_t x2 = fixed_mul(x, x), x3 = fixed_mul(x2, x), x4 = fixed_mul(x2, x2);
    const int32_t tail = fixed_shift(fixed_mul(fixed_shift(x4, 2) + x3, 715827883) + x2, 1);
    return 1895147668 + fixed_mul(1895147668, x + tail);
}

/* exp(a) in Q31 for a <= 0 with DIFF_BITS integer bits */
static int32_t exp_on_negative(int32_t a)
{
    static const int32_t factor[7] = {/* exp(-2^k), k = -2 .. 4 */
                                      1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    if (a == 0) {
        return INT32_MAX;
    }
    const int32_t part = (a & (QUARTER - 1)) - QUARTER;
    int32_t y = exp_on_quarter(part * (1 << DIFF_BITS));
    for (int32_t k = 0; k < 7; k++) {
        if ((part - a) & (QUARTER << k)) {
            y = fixed_mul(y, factor[k]);
        }
    }
    return y;
}

/* x 2^n, saturated to 32 bits */
static int32_t shift_up(int32_t x, int32_t n)
{
    const int32_t most = INT32_MAX >> n;
    return x > most ? INT32_MAX : x < -most - 1 ? INT32_MIN : x * (1 << n);
}

/* 1 / (1 + a) in Q31 for a in [0, 1): Newton with 2 integer bits */
static int32_t one_over_one_plus(int32_t a)
{
    const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) >> 1);
    int32_t x = 1515870810 + fixed_mul(half, -1010580540);
    for (int32_t i = 0; i < 3; i++) {
        x += shift_up(fixed_mul(x, (1 << 29) - fixed_mul(half, x)), 2);
    }
    return shift_up(x, 1);
}

void softmax_s8(int8_t *y, const int8_t *x, int32_t rows, int32_t n, int32_t m, int32_t left, int32_t diff_min)
{
    for (int32_t r = 0; r < rows; r++, x += n, y += n) {
        int32_t top = x[0], sum = 0, zeros = 0;
        for (int32_t i = 1; i < n; i++) {
            top = x[i] > top ? x[i] : top;
        }
        for (int32_t i = 0; i < n; i++) {
            if (x[i] - top >= diff_min) {
                sum += fixed_shift(exp_on_negative(fixed_mul((x[i] - top) * (1 << left), m)), SUM_BITS);
            }
        }
        while (!(((uint32_t)sum << zeros) & 0x80000000u)) {
            zeros++;
        }
        const int32_t scale = one_over_one_plus((int32_t)(((uint32_t)sum << zeros) - 0x80000000u));
        const int32_t down = SUM_BITS - zeros + 31 - 8;
        for (int32_t i = 0; i < n; i++) {
            int32_t q = 0;
            if (x[i] - top >= diff_min && down < 32) { /* from 32 on it is zero */
                q = fixed_shift(fixed_mul(scale, exp_on_negative(fixed_mul((x[i] - top) * (1 << left), m))), down);
            }
            y[i] = fixed_clamp(q - 128, -128, 127);
        }
    }
}
