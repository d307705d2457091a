/* STM32H743 on a Nucleo-144, never run: the debug probe's USB serial port is USART3 on PD8 (sends) and PD9 (receives).
 * 400 MHz from the internal oscillator; the chip's 480 MHz need a higher voltage that older revisions do not have.
 */
#include "boards/chips/cortex_m7_caches.h"
#include "boards/chips/stm32_gpio.h"

#define UART USART3
#define USART3 0x40004800u
#define UART_INTERRUPT 39u
#define GPIOD 0x58020c00u
#define FLASH_ACR REG(0x52002000u)
#define FLASH_ACR_LATENCY(n) ((n) << 0)
#define FLASH_ACR_WRHIGHFREQ(n) ((n) << 4)
#define RCC_CR REG(0x58024400u)
#define RCC_CR_PLL1ON (1u << 24)
#define RCC_CR_PLL1RDY (1u << 25)
#define RCC_CFGR REG(0x58024410u)
#define RCC_CFGR_SW(n) ((n) << 0)
#define RCC_CFGR_SWS(n) ((n) << 3)
#define RCC_D1CFGR REG(0x58024418u)
#define RCC_D1CFGR_HPRE(n) ((n) << 0)
#define RCC_D1CFGR_D1PPRE(n) ((n) << 4)
#define RCC_D2CFGR REG(0x5802441cu)
#define RCC_D2CFGR_D2PPRE1(n) ((n) << 4)
#define RCC_D2CFGR_D2PPRE2(n) ((n) << 8)
#define RCC_D3CFGR REG(0x58024420u)
#define RCC_D3CFGR_D3PPRE(n) ((n) << 4)
#define RCC_PLLCKSELR REG(0x58024428u)
#define RCC_PLLCKSELR_DIVM1(n) ((n) << 4)
#define RCC_PLLCFGR REG(0x5802442cu)
#define RCC_PLLCFGR_PLL1RGE(n) ((n) << 2)
#define RCC_PLLCFGR_DIVP1EN (1u << 16)
#define RCC_PLL1DIVR REG(0x58024430u)
#define RCC_PLL1DIVR_DIVN1(n) ((n) << 0)
#define RCC_PLL1DIVR_DIVP1(n) ((n) << 9)
#define RCC_AHB4ENR REG(0x580244e0u)
#define RCC_AHB4ENR_GPIODEN (1u << 3)
#define RCC_APB1LENR REG(0x580244e8u)
#define RCC_APB1LENR_USART3EN (1u << 18)
#define PWR_CSR1 REG(0x58024804u)
#define PWR_CSR1_ACTVOSRDY (1u << 13)
#define PWR_CR3 REG(0x5802480cu)
#define PWR_CR3_LDOEN (1u << 1)
#define PWR_D3CR REG(0x58024818u)
#define PWR_D3CR_VOSRDY (1u << 13)
#define PWR_D3CR_VOS(n) ((n) << 14)

enum { SLOW = 64000000, FAST = 100000000, BUS_BY_2 = 4, CORE_BY_2 = 8, PLL = 3, FROM_8_TO_16_MHZ = 3, HIGHEST = 3 };

/* The supply is said once, before the voltage can be chosen: the chip's own regulator, as it is after reset. */
static int32_t raise_voltage(void)
{
    PWR_CR3 = PWR_CR3_LDOEN;
    if (!becomes(&PWR_CSR1, PWR_CSR1_ACTVOSRDY, PWR_CSR1_ACTVOSRDY)) {
        return 0;
    }
    PWR_D3CR |= PWR_D3CR_VOS(HIGHEST);
    return becomes(&PWR_D3CR, PWR_D3CR_VOSRDY, PWR_D3CR_VOSRDY);
}

/* 64 MHz / 4 * 50 / 2 = 400 MHz; memories have half, buses a quarter. Gives the clock of the USART. */
static uint32_t fast_clock(void)
{
    if (!raise_voltage()) {
        return SLOW;
    }
    RCC_PLLCKSELR = RCC_PLLCKSELR_DIVM1(4u);
    RCC_PLLCFGR = RCC_PLLCFGR_PLL1RGE(FROM_8_TO_16_MHZ) | RCC_PLLCFGR_DIVP1EN;
    RCC_PLL1DIVR = RCC_PLL1DIVR_DIVN1(49u) | RCC_PLL1DIVR_DIVP1(1u) | 1u << 16 | 1u << 24;
    RCC_CR |= RCC_CR_PLL1ON;
    if (!becomes(&RCC_CR, RCC_CR_PLL1RDY, RCC_CR_PLL1RDY)) {
        return SLOW;
    }
    FLASH_ACR = FLASH_ACR_LATENCY(2u) | FLASH_ACR_WRHIGHFREQ(2u);
    RCC_D1CFGR = RCC_D1CFGR_HPRE(CORE_BY_2) | RCC_D1CFGR_D1PPRE(BUS_BY_2);
    RCC_D2CFGR = RCC_D2CFGR_D2PPRE1(BUS_BY_2) | RCC_D2CFGR_D2PPRE2(BUS_BY_2);
    RCC_D3CFGR = RCC_D3CFGR_D3PPRE(BUS_BY_2);
    RCC_CFGR |= RCC_CFGR_SW(PLL);
    if (!becomes(&RCC_CFGR, RCC_CFGR_SWS(7u), RCC_CFGR_SWS(PLL))) {
        RCC_CFGR = 0;
        RCC_D1CFGR = RCC_D2CFGR = RCC_D3CFGR = 0;
        return SLOW;
    }
    return FAST;
}

static uint32_t chip_start(void)
{
    RCC_AHB4ENR |= RCC_AHB4ENR_GPIODEN;
    RCC_APB1LENR |= RCC_APB1LENR_USART3EN;
    (void)RCC_APB1LENR; /* a clock takes two cycles to arrive */
    stm32_pin(GPIOD, 8, 7);
    stm32_pin(GPIOD, 9, 7);
    caches_on();
    return fast_clock();
}
