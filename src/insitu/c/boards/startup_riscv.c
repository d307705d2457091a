/* From reset to main on a RISC-V core: the stack pointer and the trap handler set, data copied, bss cleared, the stack
 * painted, the port started. The linker script places everything (link.ld), and `reset` first.
 */
#include <stdint.h>

#include "boards/startup.h"

extern uint32_t stack_bottom[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_source[];
extern int main(void);
void start(void);

/* never taken by a program that keeps to its memory: a debugger finds the core here. A port may have a handler of its
 * own, and something to set up. */
__attribute__((weak, aligned(4))) void fault(void)
{
    for (;;) {
    }
}

__attribute__((weak)) void port_start(void)
{
}

void start(void)
{
    uint32_t mark;
    for (volatile uint32_t *p = stack_bottom; (uintptr_t)p < (uintptr_t)&mark - 64; p++) {
        *p = STACK_PAINT;
    }
    const uint32_t *from = data_source;
    for (volatile uint32_t *p = data_start; p < data_end; p++) {
        *p = *from++;
    }
    for (volatile uint32_t *p = bss_start; p < bss_end; p++) {
        *p = 0;
    }
    port_start();
    main();
    fault();
}

__attribute__((section(".vectors"), naked, used)) void reset(void)
{
    __asm__ volatile(
        "la sp, stack_top\n"
        "la t0, fault\n"
        "csrw mtvec, t0\n"
        "j start");
}
