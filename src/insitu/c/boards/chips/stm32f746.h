/* STM32F746 on the Discovery board, never run: the debug probe's USB serial port is USART1 on PA9 (sends) and PB7
 * (receives). 216 MHz from the internal oscillator.
 */
#include "boards/chips/cortex_m7_caches.h"
#include "boards/chips/stm32_gpio.h"

#define UART USART1
#define USART1 0x40011000u
#define UART_INTERRUPT 37u
#define GPIOA 0x40020000u
#define GPIOB 0x40020400u
#define PWR_CR1 REG(0x40007000u)
#define PWR_CR1_VOS(n) ((n) << 14)
#define PWR_CR1_ODEN (1u << 16)
#define PWR_CR1_ODSWEN (1u << 17)
#define PWR_CSR1 REG(0x40007004u)
#define PWR_CSR1_ODRDY (1u << 16)
#define PWR_CSR1_ODSWRDY (1u << 17)
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
#define RCC_AHB1ENR_GPIOBEN (1u << 1)
#define RCC_APB1ENR REG(0x40023840u)
#define RCC_APB1ENR_PWREN (1u << 28)
#define RCC_APB2ENR REG(0x40023844u)
#define RCC_APB2ENR_USART1EN (1u << 4)
#define FLASH_ACR REG(0x40023c00u)
#define FLASH_ACR_LATENCY(n) ((n) << 0)
#define FLASH_ACR_PRFTEN (1u << 8)
#define FLASH_ACR_ARTEN (1u << 9)

enum { SLOW = 16000000, FAST = 108000000, DIVIDE_BY_2 = 4, DIVIDE_BY_4 = 5, PLL = 2 };

/* Over 180 MHz the voltage has to be raised by the over-drive. */
static int32_t over_drive(void)
{
    PWR_CR1 |= PWR_CR1_ODEN;
    if (!becomes(&PWR_CSR1, PWR_CSR1_ODRDY, PWR_CSR1_ODRDY)) {
        return 0;
    }
    PWR_CR1 |= PWR_CR1_ODSWEN;
    return becomes(&PWR_CSR1, PWR_CSR1_ODSWRDY, PWR_CSR1_ODSWRDY);
}

/* 16 MHz / 8 * 216 / 2; the USART's bus has half of that. Returns the clock of the USART. */
static uint32_t fast_clock(void)
{
    PWR_CR1 |= PWR_CR1_VOS(3u);
    RCC_PLLCFGR = RCC_PLLCFGR_PLLM(8u) | RCC_PLLCFGR_PLLN(216u) | RCC_PLLCFGR_PLLP(0u) | RCC_PLLCFGR_PLLQ(9u);
    RCC_CR |= RCC_CR_PLLON;
    if (!over_drive() || !becomes(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY)) {
        return SLOW;
    }
    FLASH_ACR = FLASH_ACR_LATENCY(7u) | FLASH_ACR_PRFTEN | FLASH_ACR_ARTEN;
    RCC_CFGR = RCC_CFGR_PPRE1(DIVIDE_BY_4) | RCC_CFGR_PPRE2(DIVIDE_BY_2) | RCC_CFGR_SW(PLL);
    if (!becomes(&RCC_CFGR, RCC_CFGR_SWS(3u), RCC_CFGR_SWS(PLL))) {
        RCC_CFGR = 0;
        return SLOW;
    }
    return FAST;
}

static uint32_t chip_start(void)
{
    RCC_AHB1ENR |= RCC_AHB1ENR_GPIOAEN | RCC_AHB1ENR_GPIOBEN;
    RCC_APB1ENR |= RCC_APB1ENR_PWREN;
    RCC_APB2ENR |= RCC_APB2ENR_USART1EN;
    (void)RCC_APB2ENR; /* a clock takes two cycles to arrive */
    stm32_pin(GPIOA, 9, 7);
    stm32_pin(GPIOB, 7, 7);
    caches_on();
    return fast_clock();
}
