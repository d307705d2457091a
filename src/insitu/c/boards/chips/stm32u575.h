/* STM32U575 or U585 on a Nucleo-144, never run: the debug probe's USB serial port is USART1 on PA9 (sends) and PA10
 * (receives). 160 MHz from the internal oscillator. TrustZone is off, as it is delivered.
 */
#include "boards/chips/stm32_gpio.h"

#define UART USART1
#define USART1 0x40013800u
#define UART_INTERRUPT 61u
#define GPIOA 0x42020000u
#define FLASH_ACR REG(0x40022000u)
#define FLASH_ACR_LATENCY(n) ((n) << 0)
#define FLASH_ACR_PRFTEN (1u << 8)
#define PWR_VOSR REG(0x4602080cu)
#define PWR_VOSR_BOOSTRDY (1u << 14)
#define PWR_VOSR_VOSRDY (1u << 15)
#define PWR_VOSR_VOS(n) ((n) << 16)
#define PWR_VOSR_BOOSTEN (1u << 18)
#define RCC_CR REG(0x46020c00u)
#define RCC_CR_HSION (1u << 8)
#define RCC_CR_HSIRDY (1u << 10)
#define RCC_CR_PLL1ON (1u << 24)
#define RCC_CR_PLL1RDY (1u << 25)
#define RCC_CFGR1 REG(0x46020c1cu)
#define RCC_CFGR1_SW(n) ((n) << 0)
#define RCC_CFGR1_SWS(n) ((n) << 2)
#define RCC_PLL1CFGR REG(0x46020c28u)
#define RCC_PLL1CFGR_PLL1SRC(n) ((n) << 0)
#define RCC_PLL1CFGR_PLL1RGE(n) ((n) << 2)
#define RCC_PLL1CFGR_PLL1REN (1u << 18)
#define RCC_PLL1DIVR REG(0x46020c34u)
#define RCC_PLL1DIVR_PLL1N(n) ((n) << 0)
#define RCC_PLL1DIVR_PLL1P(n) ((n) << 9)
#define RCC_PLL1DIVR_PLL1Q(n) ((n) << 16)
#define RCC_PLL1DIVR_PLL1R(n) ((n) << 24)
#define RCC_AHB2ENR1 REG(0x46020c8cu)
#define RCC_AHB2ENR1_GPIOAEN (1u << 0)
#define RCC_AHB3ENR REG(0x46020c94u)
#define RCC_AHB3ENR_PWREN (1u << 2)
#define RCC_APB2ENR REG(0x46020ca4u)
#define RCC_APB2ENR_USART1EN (1u << 14)

enum { SLOW = 4000000, FAST = 160000000, HSI16 = 2, PLL = 3, FROM_8_TO_16_MHZ = 3, HIGHEST = 3 };

/* Over 55 MHz the regulator has to be boosted; the booster runs on the PLL's source, which is set before. */
static int32_t raise_voltage(void)
{
    PWR_VOSR |= PWR_VOSR_VOS(HIGHEST);
    if (!becomes(&PWR_VOSR, PWR_VOSR_VOSRDY, PWR_VOSR_VOSRDY)) {
        return 0;
    }
    PWR_VOSR |= PWR_VOSR_BOOSTEN;
    return becomes(&PWR_VOSR, PWR_VOSR_BOOSTRDY, PWR_VOSR_BOOSTRDY);
}

/* 16 MHz * 10; the buses have all of it. Gives the clock of the USART. */
static uint32_t fast_clock(void)
{
    RCC_CR |= RCC_CR_HSION;
    if (!becomes(&RCC_CR, RCC_CR_HSIRDY, RCC_CR_HSIRDY)) {
        return SLOW;
    }
    RCC_PLL1CFGR = RCC_PLL1CFGR_PLL1SRC(HSI16) | RCC_PLL1CFGR_PLL1RGE(FROM_8_TO_16_MHZ) | RCC_PLL1CFGR_PLL1REN;
    RCC_PLL1DIVR = RCC_PLL1DIVR_PLL1N(9u) | RCC_PLL1DIVR_PLL1P(1u) | RCC_PLL1DIVR_PLL1Q(1u) | RCC_PLL1DIVR_PLL1R(0u);
    if (!raise_voltage()) {
        return SLOW;
    }
    RCC_CR |= RCC_CR_PLL1ON;
    if (!becomes(&RCC_CR, RCC_CR_PLL1RDY, RCC_CR_PLL1RDY)) {
        return SLOW;
    }
    FLASH_ACR = FLASH_ACR_LATENCY(4u) | FLASH_ACR_PRFTEN;
    RCC_CFGR1 |= RCC_CFGR1_SW(PLL);
    if (!becomes(&RCC_CFGR1, RCC_CFGR1_SWS(3u), RCC_CFGR1_SWS(PLL))) {
        RCC_CFGR1 = 0;
        return SLOW;
    }
    return FAST;
}

static uint32_t chip_start(void)
{
    RCC_AHB2ENR1 |= RCC_AHB2ENR1_GPIOAEN;
    RCC_AHB3ENR |= RCC_AHB3ENR_PWREN;
    RCC_APB2ENR |= RCC_APB2ENR_USART1EN;
    (void)RCC_APB2ENR; /* a clock takes two cycles to arrive */
    stm32_pin(GPIOA, 9, 7);
    stm32_pin(GPIOA, 10, 7);
    return fast_clock();
}
