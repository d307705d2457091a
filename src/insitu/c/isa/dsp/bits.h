/* bits.h for Cortex-M: zeros in front are counted in one instruction. */
#ifndef INSITU_ISA_DSP_BITS_H
#define INSITU_ISA_DSP_BITS_H

/* in assembler, because the compiler's builtin is undefined for 0 */
static inline int32_t arm_bit_length(uint32_t n)
{
    int32_t zeros;
    __asm__("clz %0, %1" : "=r"(zeros) : "r"(n));
    return 32 - zeros;
}
#define bit_length arm_bit_length

#endif
