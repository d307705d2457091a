/* Registers in memory, and waiting for one without hanging: a clock that never becomes ready must not stop a board. */
#ifndef INSITU_MMIO_H
#define INSITU_MMIO_H

#include <stdint.h>

#define REG(address) (*(volatile uint32_t *)(uintptr_t)(address))

enum { PATIENCE = 100000 }; /* reads of a register: at least 20 ms at 16 MHz; an oscillator takes 2 ms */

/* Waits until these bits of a register have this value; 0 if they never do. */
static inline int32_t becomes(volatile uint32_t *reg, uint32_t mask, uint32_t value)
{
    for (int32_t i = 0; i < PATIENCE; i++) {
        if ((*reg & mask) == value) {
            return 1;
        }
    }
    return 0;
}

#endif
