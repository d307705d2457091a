/* The caches of a Cortex-M7: off after reset, and flash without them is several times slower. Nothing here uses DMA, so
 * nothing can differ between cache and memory.
 */
#ifndef INSITU_CORTEX_M7_CACHES_H
#define INSITU_CORTEX_M7_CACHES_H

#include "boards/mmio.h"

#define SCB_CCR REG(0xe000ed14u)
#define SCB_CCSIDR REG(0xe000ed80u)
#define SCB_CSSELR REG(0xe000ed84u)
#define SCB_ICIALLU REG(0xe000ef50u)
#define SCB_DCISW REG(0xe000ef60u)

enum { DATA_CACHE = 1 << 16, INSTRUCTION_CACHE = 1 << 17 };

static inline void barrier(void)
{
    __asm__ volatile("dsb\n isb" ::: "memory");
}

static inline void caches_on(void)
{
    SCB_CSSELR = 0; /* the data cache */
    barrier();
    const uint32_t size = SCB_CCSIDR, ways = size >> 3 & 0x3ffu, sets = size >> 13 & 0x7fffu;
    for (uint32_t set = 0; set <= sets; set++) {
        for (uint32_t way = 0; way <= ways; way++) {
            SCB_DCISW = way << 30 | set << 5; /* four ways, lines of 32 bytes */
        }
    }
    SCB_ICIALLU = 0;
    barrier();
    SCB_CCR |= DATA_CACHE | INSTRUCTION_CACHE;
    barrier();
}

#endif
