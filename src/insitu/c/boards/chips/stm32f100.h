/* STM32F100 at 24 MHz from the internal oscillator: USART1 on PA9 (sends) and PA10 (receives). Runs on QEMU's
 * stm32vldiscovery.
 */
#include "boards/mmio.h"

#define UART USART1
#define USART1 0x40013800u
#define UART_INTERRUPT 37u
#define GPIOA_CRH REG(0x40010804u)
#define GPIOA_CRH_MODE9(n) ((n) << 4)
#define GPIOA_CRH_CNF9(n) ((n) << 6)
#define GPIOA_CRH_MODE10(n) ((n) << 8)
#define GPIOA_CRH_CNF10(n) ((n) << 10)
#define GPIOA_BSRR REG(0x40010810u)
#define GPIOA_BSRR_BS10 (1u << 10)
#define RCC_CR REG(0x40021000u)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_CFGR REG(0x40021004u)
#define RCC_CFGR_SW(n) ((n) << 0)
#define RCC_CFGR_SWS(n) ((n) << 2)
#define RCC_CFGR_PLLMUL(n) ((n) << 18)
#define RCC_APB2ENR REG(0x40021018u)
#define RCC_APB2ENR_IOPAEN (1u << 2)
#define RCC_APB2ENR_USART1EN (1u << 14)

enum { SLOW = 8000000, FAST = 24000000, PLL = 2, TIMES_6 = 4, OUTPUT = 3, ALTERNATE = 2, PULLED = 2 };

/* 8 MHz / 2 * 6; returns the clock of the USART, which is the core's. */
static uint32_t fast_clock(void)
{
    RCC_CFGR = RCC_CFGR_PLLMUL(TIMES_6);
    RCC_CR |= RCC_CR_PLLON;
    if (!becomes(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY)) {
        return SLOW;
    }
    RCC_CFGR |= RCC_CFGR_SW(PLL);
    if (!becomes(&RCC_CFGR, RCC_CFGR_SWS(3u), RCC_CFGR_SWS(PLL))) {
        RCC_CFGR = 0;
        return SLOW;
    }
    return FAST;
}

static uint32_t chip_start(void)
{
    const uint32_t both = GPIOA_CRH_MODE9(3u) | GPIOA_CRH_CNF9(3u) | GPIOA_CRH_MODE10(3u) | GPIOA_CRH_CNF10(3u);
    RCC_APB2ENR |= RCC_APB2ENR_IOPAEN | RCC_APB2ENR_USART1EN;
    (void)RCC_APB2ENR; /* a clock takes two cycles to arrive */
    GPIOA_BSRR = GPIOA_BSRR_BS10; /* pulled up, so that a line that nobody drives is idle */
    GPIOA_CRH = (GPIOA_CRH & ~both) | GPIOA_CRH_MODE9(OUTPUT) | GPIOA_CRH_CNF9(ALTERNATE) | GPIOA_CRH_CNF10(PULLED);
    return fast_clock();
}
