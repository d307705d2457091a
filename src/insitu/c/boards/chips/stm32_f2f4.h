/* What the STM32F2 and F4 share: USART1 on PA9 (sends) and PA10 (receives), where the chip's own boot loader talks too.
 * The core runs from the internal oscillator of 16 MHz, so that no crystal needs to be known: / 8 * PLL_TIMES / 2.
 */
#include "boards/chips/stm32_gpio.h"

#define UART USART1
#define USART1 0x40011000u
#define UART_INTERRUPT 37u
#define GPIOA 0x40020000u
#define RCC_CR REG(0x40023800u)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_PLLCFGR REG(0x40023804u)
#define RCC_PLLCFGR_PLLM(n) ((n) << 0)
#define RCC_PLLCFGR_PLLN(n) ((n) << 6)
#define RCC_PLLCFGR_PLLP(n) ((n) << 16)
#define RCC_PLLCFGR_PLLQ(n) ((n) << 24)
#define RCC_CFGR REG(0x40023808u)
#define RCC_CFGR_SW(n) ((n) << 0)
#define RCC_CFGR_SWS(n) ((n) << 2)
#define RCC_CFGR_PPRE1(n) ((n) << 10)
#define RCC_CFGR_PPRE2(n) ((n) << 13)
#define RCC_AHB1ENR REG(0x40023830u)
#define RCC_AHB1ENR_GPIOAEN (1u << 0)
#define RCC_APB2ENR REG(0x40023844u)
#define RCC_APB2ENR_USART1EN (1u << 4)
#define FLASH_ACR REG(0x40023c00u)
#define FLASH_ACR_LATENCY(n) ((n) << 0)
#define FLASH_ACR_PRFTEN (1u << 8)
#define FLASH_ACR_ICEN (1u << 9)
#define FLASH_ACR_DCEN (1u << 10)

enum { SLOW = 16000000, DIVIDE_BY_2 = 4, DIVIDE_BY_4 = 5, PLL = 2 };

/* The core's clock is PLL_TIMES MHz, that of the USART's bus half of it. Gives the latter. */
static uint32_t fast_clock(void)
{
    RCC_PLLCFGR =
        RCC_PLLCFGR_PLLM(8u) | RCC_PLLCFGR_PLLN(PLL_TIMES) | RCC_PLLCFGR_PLLP(0u) | RCC_PLLCFGR_PLLQ(PLL_TIMES / 24u);
    RCC_CR |= RCC_CR_PLLON;
    if (!becomes(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY)) {
        return SLOW;
    }
    FLASH_ACR = FLASH_ACR_LATENCY(WAIT_STATES) | FLASH_ACR_PRFTEN | FLASH_ACR_ICEN | FLASH_ACR_DCEN;
    RCC_CFGR = RCC_CFGR_PPRE1(DIVIDE_BY_4) | RCC_CFGR_PPRE2(DIVIDE_BY_2) | RCC_CFGR_SW(PLL);
    if (!becomes(&RCC_CFGR, RCC_CFGR_SWS(3u), RCC_CFGR_SWS(PLL))) {
        RCC_CFGR = 0;
        return SLOW;
    }
    return PLL_TIMES * 500000u;
}

static uint32_t chip_start(void)
{
    RCC_AHB1ENR |= RCC_AHB1ENR_GPIOAEN;
    RCC_APB2ENR |= RCC_APB2ENR_USART1EN;
    (void)RCC_APB2ENR; /* a clock takes two cycles to arrive */
    stm32_pin(GPIOA, 9, 7);
    stm32_pin(GPIOA, 10, 7);
    return fast_clock();
}
