/* STM32L476 on a Nucleo-64, never run: the debug probe's USB serial port is USART2 on PA2 (sends) and PA3 (receives).
 * 80 MHz from the internal oscillator.
 */
#include "boards/chips/stm32_gpio.h"

#define UART USART2
#define USART2 0x40004400u
#define UART_INTERRUPT 38u
#define GPIOA 0x48000000u
#define RCC_CR REG(0x40021000u)
#define RCC_CR_HSION (1u << 8)
#define RCC_CR_HSIRDY (1u << 10)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_CFGR REG(0x40021008u)
#define RCC_CFGR_SW(n) ((n) << 0)
#define RCC_CFGR_SWS(n) ((n) << 2)
#define RCC_PLLCFGR REG(0x4002100cu)
#define RCC_PLLCFGR_PLLSRC(n) ((n) << 0)
#define RCC_PLLCFGR_PLLN(n) ((n) << 8)
#define RCC_PLLCFGR_PLLREN (1u << 24)
#define RCC_AHB2ENR REG(0x4002104cu)
#define RCC_AHB2ENR_GPIOAEN (1u << 0)
#define RCC_APB1ENR1 REG(0x40021058u)
#define RCC_APB1ENR1_USART2EN (1u << 17)
#define FLASH_ACR REG(0x40022000u)
#define FLASH_ACR_LATENCY(n) ((n) << 0)
#define FLASH_ACR_PRFTEN (1u << 8)
#define FLASH_ACR_ICEN (1u << 9)
#define FLASH_ACR_DCEN (1u << 10)

enum { SLOW = 4000000, FAST = 80000000, HSI16 = 2, PLL = 3 };

/* 16 MHz * 10 / 2; the buses have all of it. Gives the clock of the USART. */
static uint32_t fast_clock(void)
{
    RCC_CR |= RCC_CR_HSION;
    if (!becomes(&RCC_CR, RCC_CR_HSIRDY, RCC_CR_HSIRDY)) {
        return SLOW;
    }
    RCC_PLLCFGR = RCC_PLLCFGR_PLLSRC(HSI16) | RCC_PLLCFGR_PLLN(10u) | RCC_PLLCFGR_PLLREN;
    RCC_CR |= RCC_CR_PLLON;
    if (!becomes(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY)) {
        return SLOW;
    }
    FLASH_ACR = FLASH_ACR_LATENCY(4u) | FLASH_ACR_PRFTEN | FLASH_ACR_ICEN | FLASH_ACR_DCEN;
    RCC_CFGR |= RCC_CFGR_SW(PLL);
    if (!becomes(&RCC_CFGR, RCC_CFGR_SWS(3u), RCC_CFGR_SWS(PLL))) {
        RCC_CFGR = 0;
        return SLOW;
    }
    return FAST;
}

static uint32_t chip_start(void)
{
    RCC_AHB2ENR |= RCC_AHB2ENR_GPIOAEN;
    RCC_APB1ENR1 |= RCC_APB1ENR1_USART2EN;
    (void)RCC_APB1ENR1; /* a clock takes two cycles to arrive */
    stm32_pin(GPIOA, 2, 7);
    stm32_pin(GPIOA, 3, 7);
    return fast_clock();
}
