/* Bytes in and out over the USART of an STM32F7, H7, L4 or U5 (status and data in registers of their own). Never run: there
 * is no model of these chips here, so a test compares every register with the vendor's description (SVD) where one is at
 * hand. The chip's header says where the USART is and sets the clock.
 */
#include "boards/mmio.h"
#include "boards/sleep.h"
#include "boards/startup.h"
#include "chip.h"
#include "device/port.h"

#define USART_CR1 REG(UART + 0x00u)
#define USART_CR1_UE (1u << 0)
#define USART_CR1_RE (1u << 2)
#define USART_CR1_TE (1u << 3)
#define USART_CR1_RXNEIE (1u << 5)
#define USART_BRR REG(UART + 0x0cu)
#define USART_ISR REG(UART + 0x1cu)
#define USART_ISR_ORE (1u << 3)
#define USART_ISR_RXNE (1u << 5)
#define USART_ISR_TXE (1u << 7)
#define USART_ICR REG(UART + 0x20u)
#define USART_ICR_ORECF (1u << 3)
#define USART_RDR REG(UART + 0x24u)
#define USART_TDR REG(UART + 0x28u)

void port_start(void)
{
    const uint32_t clock = chip_start();
    USART_CR1 = 0;
    USART_BRR = (clock + BAUD / 2) / BAUD;
    USART_CR1 = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE; /* the last to be woken by it */
}

int32_t port_read(uint8_t *to, int32_t most)
{
    int32_t got = 0;
    for (;;) {
        USART_ICR = USART_ICR_ORECF; /* a lost byte shows in the frame's CRC: the other end sends it again */
        while (got < most && (USART_ISR & USART_ISR_RXNE)) {
            to[got++] = (uint8_t)USART_RDR;
        }
        if (got > 0) {
            return got;
        }
        sleep_prepare(UART_INTERRUPT);
        if (!(USART_ISR & (USART_ISR_RXNE | USART_ISR_ORE))) {
            sleep_until(UART_INTERRUPT);
        }
    }
}

void port_write(const uint8_t *from, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        while (!(USART_ISR & USART_ISR_TXE)) {
        }
        USART_TDR = from[i];
    }
}
