/* Bytes in and out over the UART of an nRF51 or nRF52. Runs on QEMU's microbit (nRF51822). The chip's header has the pins;
 * clock and UART have the same registers on all of these chips.
 */
#include "boards/mmio.h"
#include "boards/sleep.h"
#include "boards/startup.h"
#include "chip.h"
#include "device/port.h"

#define CLOCK_TASKS_HFCLKSTART REG(0x40000000u)
#define CLOCK_EVENTS_HFCLKSTARTED REG(0x40000100u)
#define UART0_TASKS_STARTRX REG(0x40002000u)
#define UART0_TASKS_STARTTX REG(0x40002008u)
#define UART0_EVENTS_RXDRDY REG(0x40002108u)
#define UART0_EVENTS_TXDRDY REG(0x4000211cu)
#define UART0_INTENSET REG(0x40002304u)
#define UART0_INTENSET_RXDRDY (1u << 2)
#define UART0_INTERRUPT 2u
#define UART0_ENABLE REG(0x40002500u)
#define UART0_PSELRTS REG(0x40002508u)
#define UART0_PSELTXD REG(0x4000250cu)
#define UART0_PSELCTS REG(0x40002510u)
#define UART0_PSELRXD REG(0x40002514u)
#define UART0_RXD REG(0x40002518u)
#define UART0_TXD REG(0x4000251cu)
#define UART0_BAUDRATE REG(0x40002524u)
#define UART0_CONFIG REG(0x4000256cu)
#define GPIO_OUTSET(port) REG(0x50000508u + 0x300u * (port))
#define GPIO_DIRSET(port) REG(0x50000518u + 0x300u * (port))
#define GPIO_PIN_CNF(port, pin) REG(0x50000700u + 0x300u * (port) + 4u * (pin))

enum { ENABLED = 4, PULLED_UP = 3 << 2 };
#define NOWHERE (0xffffffffu)
/* baud / 16 MHz, as a fraction of 2^32 rounded to 20 bits */
#define RATE ((uint32_t)((((uint64_t)BAUD << 32) / 16000000u + 0x800u) & 0xfffff000u))

void port_start(void)
{
    CLOCK_EVENTS_HFCLKSTARTED = 0;
    CLOCK_TASKS_HFCLKSTART = 1; /* the crystal: without it, the baud rate may be off by several percent */
    (void)becomes(&CLOCK_EVENTS_HFCLKSTARTED, 1, 1);
    GPIO_OUTSET(SEND_PORT) = 1u << SEND_PIN;
    GPIO_DIRSET(SEND_PORT) = 1u << SEND_PIN;
    GPIO_PIN_CNF(RECEIVE_PORT, RECEIVE_PIN) = PULLED_UP;
    UART0_ENABLE = 0;
    UART0_PSELRTS = UART0_PSELCTS = NOWHERE;
    UART0_PSELTXD = SEND_PORT << 5 | SEND_PIN;
    UART0_PSELRXD = RECEIVE_PORT << 5 | RECEIVE_PIN;
    UART0_BAUDRATE = RATE;
    UART0_CONFIG = 0;
    UART0_ENABLE = ENABLED;
    UART0_INTENSET = UART0_INTENSET_RXDRDY; /* to be woken by it */
    UART0_TASKS_STARTTX = 1;
    UART0_TASKS_STARTRX = 1;
}

int32_t port_read(uint8_t *to, int32_t most)
{
    int32_t got = 0;
    for (;;) {
        while (got < most && UART0_EVENTS_RXDRDY) {
            UART0_EVENTS_RXDRDY = 0; /* before the read, which lets the next byte in and may raise the event again */
            to[got++] = (uint8_t)UART0_RXD;
        }
        if (got > 0) {
            return got;
        }
        sleep_prepare(UART0_INTERRUPT);
        if (!UART0_EVENTS_RXDRDY) {
            sleep_until(UART0_INTERRUPT);
        }
    }
}

void port_write(const uint8_t *from, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        UART0_EVENTS_TXDRDY = 0;
        UART0_TXD = from[i];
        while (!UART0_EVENTS_TXDRDY) {
        }
    }
}
