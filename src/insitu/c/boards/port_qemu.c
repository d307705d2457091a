/* Bytes in and out on QEMU's boards of Arm: a CMSDK UART. Before main, the memory protection unit is set to what may be
 * accessed: the flash, read-only, as much SRAM as the budget has, and the two registers below. Any other access traps,
 * and startup.c reports it. The linker script has the addresses; they are QEMU's, not a board's.
 */
#include "boards/startup.h"
#include "device/port.h"
#include "isa/machine.h"

typedef struct {
    volatile uint32_t data, state, control, interrupts, divider;
} uart;

typedef struct {
    volatile uint32_t type, control, number, base, attributes;
} protection;

extern uart port_uart;                  /* UART 0 */
extern volatile uint32_t port_counter;  /* a clock that counts instructions under -icount */
extern uint8_t port_flash[], port_flash_end[], port_sram[], port_sram_end[];

enum { FULL_OUT = 1, FULL_IN = 2, READ_ONLY = 6, READ_WRITE = 3 };

#define MPU ((protection *)0xe000ed90u)

/* between the last byte of a request and the first of its answer; the other side reads it directly from memory */
volatile uint32_t port_begun, port_spent;
static uint32_t answering;

#if INSITU_ARM_REGION_LIMITS
static uint32_t protect(uint32_t region, uint32_t from, uint32_t to, uint32_t access, uint32_t data)
{
    *(volatile uint32_t *)0xe000edc0u = 0x44u; /* normal memory, not cached */
    MPU->number = region;
    MPU->base = from | (access == READ_ONLY ? 6u : 2u) | data;
    MPU->attributes = ((to - 1) & ~31u) | 1u;
    return region + 1;
}
#else
/* regions are powers of two, and lie at multiples of their size */
static uint32_t protect(uint32_t region, uint32_t from, uint32_t to, uint32_t access, uint32_t data)
{
    while (from < to) {
        uint32_t bits = 5;
        while (bits < 31 && !(from & (1u << bits)) && (2u << bits) <= to - from) {
            bits++;
        }
        MPU->number = region++;
        MPU->base = from;
        MPU->attributes = data << 28 | access << 24 | (bits - 1) << 1 | 1u;
        from += 1u << bits;
    }
    return region;
}
#endif

void port_start(void)
{
    const uint32_t serial = (uint32_t)(uintptr_t)&port_uart, clock = (uint32_t)(uintptr_t)&port_counter & ~31u;
    uint32_t next = 0;
    next = protect(next, (uint32_t)(uintptr_t)port_flash, (uint32_t)(uintptr_t)port_flash_end, READ_ONLY, 0);
    next = protect(next, (uint32_t)(uintptr_t)port_sram, (uint32_t)(uintptr_t)port_sram_end, READ_WRITE, 1);
    next = protect(next, serial, serial + 32, READ_WRITE, 1);
    protect(next, clock, clock + 32, READ_WRITE, 1);
    MPU->control = 1;
    __asm__ volatile("dsb\n isb" ::: "memory");
    port_uart.divider = 16;
    port_uart.control = 3;
}

int32_t port_read(uint8_t *to, int32_t most)
{
    int32_t got = 0;
    while (got == 0) {
        while (got < most && (port_uart.state & FULL_IN)) {
            to[got++] = (uint8_t)port_uart.data;
        }
    }
    answering = 0;
    port_begun = port_counter;
    return got;
}

void port_write(const uint8_t *from, int32_t count)
{
    if (!answering) {
        port_spent = port_counter - port_begun;
        answering = 1;
    }
    for (int32_t i = 0; i < count; i++) {
        while (port_uart.state & FULL_OUT) {
        }
        port_uart.data = from[i];
    }
}
