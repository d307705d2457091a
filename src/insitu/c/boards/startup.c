/* From reset to main on a Cortex-M: floating point on, data copied, bss cleared, the stack painted, the port started.
 * The rest of the paint shows the maximum depth of the stack. The linker script places everything (link.ld).
 */
#include <stdint.h>

#include "boards/startup.h"

extern uint32_t stack_bottom[], stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_source[];
extern int main(void);

/* never reached by a program that stays in its memory: a debugger finds the core here. A port may have its own handler
 * and setup. */
__attribute__((weak)) void fault(void)
{
    for (;;) {
    }
}

__attribute__((weak)) void port_start(void)
{
}

void reset(void)
{
#if defined(__ARM_FP)
    volatile uint32_t *const cpacr = (volatile uint32_t *)0xe000ed88u;
    *cpacr |= 0xfu << 20;
    __asm__ volatile("dsb\n isb" ::: "memory");
#endif
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

__attribute__((section(".vectors"), used)) const vector vectors[16] = {
    {.address = stack_top}, {reset}, {fault}, {fault}, {fault}, {fault}, {fault}, {.address = 0},
    {.address = 0}, {.address = 0}, {.address = 0}, {fault}, {fault}, {.address = 0}, {fault}, {fault},
};
