/* Bytes in and out over Arm's PL011, the UART of an RP2040 and of a Stellaris. Runs on rp2040js and on QEMU's
 * lm3s6965evb. The chip's header says where it is, sets the clock, and how to wait for a byte.
 */
#include "boards/mmio.h"
#include "boards/startup.h"
#include "chip.h"
#include "device/port.h"

#define UART_DR REG(UART + 0x00u)
#define UART_FR REG(UART + 0x18u)
#define UART_FR_RXFE (1u << 4)
#define UART_FR_TXFF (1u << 5)
#define UART_IBRD REG(UART + 0x24u)
#define UART_FBRD REG(UART + 0x28u)
#define UART_LCR_H REG(UART + 0x2cu)
#define UART_LCR_H_FEN (1u << 4)
#define UART_LCR_H_WLEN(n) ((n) << 5)
#define UART_CR REG(UART + 0x30u)
#define UART_CR_UARTEN (1u << 0)
#define UART_CR_TXE (1u << 8)
#define UART_CR_RXE (1u << 9)

enum { EIGHT_BITS = 3 };

void port_start(void)
{
    const uint32_t divisor = (4 * chip_start() + BAUD / 2) / BAUD; /* 64ths of the clock over 16 times the baud rate */
    UART_CR = 0;
    UART_IBRD = divisor >> 6;
    UART_FBRD = divisor & 63;
    UART_LCR_H = UART_LCR_H_WLEN(EIGHT_BITS) | UART_LCR_H_FEN; /* after the divisor, which it latches */
    UART_CR = UART_CR_UARTEN | UART_CR_TXE | UART_CR_RXE;
}

int32_t port_read(uint8_t *to, int32_t most)
{
    int32_t got = 0;
    while (got == 0) { /* a lost byte shows in the frame's CRC: the other end sends it again */
        while (got < most && !(UART_FR & UART_FR_RXFE)) {
            to[got++] = (uint8_t)UART_DR;
        }
        if (got == 0) {
            chip_wait(&UART_FR, UART_FR_RXFE);
        }
    }
    return got;
}

void port_write(const uint8_t *from, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        while (UART_FR & UART_FR_TXFF) {
        }
        UART_DR = from[i];
    }
}
