/* Bytes in and out over the USART of an STM32F1, F2 or F4 (one status and one data register). Runs on the chip models of
 * QEMU: netduinoplus2 (F4), netduino2 (F2), stm32vldiscovery (F1). The chip's header says where it is and sets the clock.
 */
#include "boards/mmio.h"
#include "boards/sleep.h"
#include "boards/startup.h"
#include "chip.h"
#include "device/port.h"

#define USART_SR REG(UART + 0x00u)
#define USART_SR_ORE (1u << 3)
#define USART_SR_RXNE (1u << 5)
#define USART_SR_TXE (1u << 7)
#define USART_DR REG(UART + 0x04u)
#define USART_BRR REG(UART + 0x08u)
#define USART_CR1 REG(UART + 0x0cu)
#define USART_CR1_RE (1u << 2)
#define USART_CR1_TE (1u << 3)
#define USART_CR1_RXNEIE (1u << 5)
#define USART_CR1_UE (1u << 13)

#define ARRIVED (USART_SR & (USART_SR_RXNE | USART_SR_ORE))

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
    for (;;) { /* a lost byte shows in the frame's CRC; reading the data also clears an overrun */
        while (got < most && ARRIVED) {
            to[got++] = (uint8_t)USART_DR;
        }
        if (got > 0) {
            return got;
        }
        sleep_prepare(UART_INTERRUPT);
        if (!ARRIVED) {
            sleep_until(UART_INTERRUPT);
        }
    }
}

void port_write(const uint8_t *from, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        while (!(USART_SR & USART_SR_TXE)) {
        }
        USART_DR = from[i];
    }
}
