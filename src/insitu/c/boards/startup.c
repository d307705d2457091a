/* From reset to main on a Cortex-M: floating point on, data copied, bss cleared, the stack painted, the port started.
 * The paint that is left shows how deep the stack ever was. A core that traps tells the other end of the line. The
 * linker script places everything (link.ld).
 */
#include <stdint.h>

#include "boards/startup.h"
#include "device/device.h"
#include "device/link.h"
#include "device/port.h"
#include "isa/machine.h"

#define CAUSE (*(volatile uint32_t *)0xe000ed28u)
#define ADDRESS_MEMORY (*(volatile uint32_t *)0xe000ed34u)
#define ADDRESS_BUS (*(volatile uint32_t *)0xe000ed38u)

enum { FAULT_WORDS = 6 };

extern uint32_t stack_bottom[], stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_source[];
extern int main(void);

__attribute__((weak)) void port_start(void)
{
}

void reset(void)
{
#if INSITU_ARM_FPU
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

/* A core that has trapped sends a frame at once, and again for every frame that arrives: the other end would wait long
 * for an answer (docs/protocol.md). Neither the program nor its stack is trusted any more: fault() starts a new stack
 * at the top. The data, 32 bits each:
 *
 *   number of the exception; 0: main has returned
 *   where the core was, its caller, its stack pointer; the first two are 0 if the stack is gone
 *   the cause (CFSR), and the address of a refused access; both are 0 on a Cortex-M0, which does not know
 */
__attribute__((used)) void fault_tell(uint32_t stack, uint32_t from, uint32_t at)
{
    uint32_t number, words[FAULT_WORDS] = {0, at, from, stack, 0, 0};
    uint8_t frame[DEVICE_HEAD + 4 * FAULT_WORDS + LINK_CRC] = {0x80, DEVICE_FAULTED};
    __asm__ volatile("mrs %0, ipsr" : "=r"(number));
    words[0] = number;
#if INSITU_ARM_FAULT_CAUSES
    words[4] = CAUSE;
    words[5] = words[4] & 0x80u ? ADDRESS_MEMORY : words[4] & 0x8000u ? ADDRESS_BUS : 0;
#endif
    frame[6] = 4 * FAULT_WORDS;
    for (int32_t i = 0; i < FAULT_WORDS; i++) {
        link_put_word(frame + DEVICE_HEAD + 4 * i, words[i]);
    }
    for (;;) {
        link_send(frame, DEVICE_HEAD + 4 * FAULT_WORDS);
        uint8_t byte = 0, before;
        do {
            before = byte;
            port_read(&byte, 1);
        } while (byte != 0 || before == 0); /* the end of a frame: a zero that another byte precedes */
    }
}

/* r0 stack, r1 from, r2 at: read from the registers that the core has pushed, if it had room for them */
__attribute__((weak, naked)) void fault(void)
{
    __asm__ volatile("mov r0, sp\n"
                     "movs r1, #0\n"
                     "movs r2, #0\n"
                     "ldr r3, =stack_bottom\n"
                     "cmp r0, r3\n"
                     "blo 1f\n"
                     "ldr r3, =stack_top - 32\n"
                     "cmp r0, r3\n"
                     "bhi 1f\n"
                     "ldr r1, [r0, #20]\n"
                     "ldr r2, [r0, #24]\n"
                     "1:\n"
                     "ldr r3, =stack_top\n"
                     "msr msp, r3\n"
                     "bl fault_tell\n"
                     ".ltorg\n");
}

__attribute__((section(".vectors"), used)) const vector vectors[16] = {
    {.address = stack_top}, {reset}, {fault}, {fault}, {fault}, {fault}, {fault}, {.address = 0},
    {.address = 0}, {.address = 0}, {.address = 0}, {fault}, {fault}, {.address = 0}, {fault}, {fault},
};
