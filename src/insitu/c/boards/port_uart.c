/* Bytes in and out over a UART: an example, for the USART of an STM32F7, H7, L4 or U5. It is compiled by insitu's tests
 * and has not been run on a board: set the clock, the pins and the baud rate in a function port_start, which startup.c
 * calls before main, then this is all there is to do. For another chip, write these two functions with its registers.
 */
#include "device/port.h"

#ifndef UART_BASE
#define UART_BASE 0x40011000u /* USART1 */
#endif

typedef struct {
    volatile uint32_t cr1, cr2, cr3, brr, gtpr, rtor, rqr, isr, icr, rdr, tdr;
} uart;

enum { RECEIVED = 1u << 5, EMPTY = 1u << 7, OVERRUN = 1u << 3 };

int32_t port_read(uint8_t *to, int32_t most)
{
    uart *const u = (uart *)UART_BASE;
    int32_t got = 0;
    while (got == 0) { /* a lost byte shows in the frame's CRC: the other end sends it again */
        u->icr = OVERRUN;
        while (got < most && (u->isr & RECEIVED)) {
            to[got++] = (uint8_t)u->rdr;
        }
    }
    return got;
}

void port_write(const uint8_t *from, int32_t count)
{
    uart *const u = (uart *)UART_BASE;
    for (int32_t i = 0; i < count; i++) {
        while (!(u->isr & EMPTY)) {
        }
        u->tdr = from[i];
    }
}
