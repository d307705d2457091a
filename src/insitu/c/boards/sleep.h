/* Sleeping until a byte comes: a board that waits for the other end of its line needs little power meanwhile.
 *
 * The interrupt wakes the core, but is never taken: it is enabled only while the core sleeps, and masked then. So there
 * is no handler, and other interrupts of an application run as ever.
 */
#ifndef INSITU_SLEEP_H
#define INSITU_SLEEP_H

#include "boards/mmio.h"

#define NVIC_ISER(number) REG(0xe000e100u + 4 * ((number) >> 5))
#define NVIC_ICER(number) REG(0xe000e180u + 4 * ((number) >> 5))
#define NVIC_ICPR(number) REG(0xe000e280u + 4 * ((number) >> 5))

/* Forgets that this interrupt came. Then look once more whether there is a byte, and only then sleep: one that comes
 * after this call wakes the core at once.
 */
static inline void sleep_prepare(uint32_t number)
{
    NVIC_ICPR(number) = 1u << (number & 31);
    __asm__ volatile("dsb" ::: "memory");
}

/* Returns when this interrupt, or another one, comes or has come; at once in a handler, which no interrupt would wake. */
static inline void sleep_until(uint32_t number)
{
    uint32_t handler, masked;
    __asm__ volatile("mrs %0, ipsr\n mrs %1, primask" : "=r"(handler), "=r"(masked));
    if (handler != 0) {
        return;
    }
    __asm__ volatile("cpsid i" ::: "memory");
    NVIC_ISER(number) = 1u << (number & 31);
    __asm__ volatile("dsb\n wfi" ::: "memory");
    NVIC_ICER(number) = 1u << (number & 31);
    __asm__ volatile("dsb\n isb\n msr primask, %0" ::"r"(masked) : "memory");
}

#endif
