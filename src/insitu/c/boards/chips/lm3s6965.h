/* Stellaris LM3S6965 at 50 MHz from a crystal of 8 MHz, as on its evaluation board: UART0 on PA1 (sends) and PA0
 * (receives), which the board's USB socket has. Runs on QEMU's lm3s6965evb. No vendor's description of its registers was
 * found: they are those of the data sheet.
 */
#include "boards/mmio.h"
#include "boards/sleep.h"

#define UART 0x4000c000u /* UART0 */
#define UART_INTERRUPT 5u
#define UART_IM REG(UART + 0x38u)
#define UART_IM_RXIM (1u << 4)
#define UART_IM_RTIM (1u << 6)
#define GPIOA_AFSEL REG(0x40004420u)
#define GPIOA_PUR REG(0x40004510u)
#define GPIOA_DEN REG(0x4000451cu)
#define SYSCTL_RIS REG(0x400fe050u)
#define SYSCTL_RIS_PLLLRIS (1u << 6)
#define SYSCTL_RCC REG(0x400fe060u)
#define SYSCTL_RCC_MOSCDIS (1u << 0)
#define SYSCTL_RCC_OSCSRC(n) ((n) << 4)
#define SYSCTL_RCC_XTAL(n) ((n) << 6)
#define SYSCTL_RCC_BYPASS (1u << 11)
#define SYSCTL_RCC_OEN (1u << 12)
#define SYSCTL_RCC_PWRDN (1u << 13)
#define SYSCTL_RCC_USESYSDIV (1u << 22)
#define SYSCTL_RCC_SYSDIV(n) ((n) << 23)
#define SYSCTL_RCGC1 REG(0x400fe104u)
#define SYSCTL_RCGC1_UART0 (1u << 0)
#define SYSCTL_RCGC2 REG(0x400fe108u)
#define SYSCTL_RCGC2_GPIOA (1u << 0)

enum { CRYSTAL = 8000000, FAST = 50000000, EIGHT_MHZ = 14, BY_FOUR = 3, RECEIVES = 1, SENDS = 2 };

/* The crystal first, past the PLL; then 200 MHz of the PLL by four. */
static uint32_t fast_clock(void)
{
    const uint32_t crystal = SYSCTL_RCC_XTAL((uint32_t)EIGHT_MHZ) | SYSCTL_RCC_OSCSRC(0u);
    SYSCTL_RCC = crystal | SYSCTL_RCC_BYPASS | SYSCTL_RCC_OEN | SYSCTL_RCC_PWRDN;
    for (volatile int32_t i = 0; i < PATIENCE; i++) { /* no register says that the crystal swings */
    }
    const uint32_t divided = crystal | SYSCTL_RCC_USESYSDIV | SYSCTL_RCC_SYSDIV((uint32_t)BY_FOUR);
    SYSCTL_RCC = divided | SYSCTL_RCC_BYPASS;
    if (!becomes(&SYSCTL_RIS, SYSCTL_RIS_PLLLRIS, SYSCTL_RIS_PLLLRIS)) {
        SYSCTL_RCC = crystal | SYSCTL_RCC_BYPASS;
        return CRYSTAL;
    }
    SYSCTL_RCC = divided;
    return FAST;
}

static uint32_t chip_start(void)
{
    const uint32_t clock = fast_clock();
    SYSCTL_RCGC1 |= SYSCTL_RCGC1_UART0;
    SYSCTL_RCGC2 |= SYSCTL_RCGC2_GPIOA;
    (void)SYSCTL_RCGC2; /* a clock takes three cycles to come on */
    (void)SYSCTL_RCGC2;
    GPIOA_PUR |= RECEIVES; /* idle if nobody drives it */
    GPIOA_AFSEL |= RECEIVES | SENDS;
    GPIOA_DEN |= RECEIVES | SENDS;
    return clock;
}

/* Some bytes wake it, or a pause after the first of them. */
static void chip_wait(volatile uint32_t *flags, uint32_t empty)
{
    UART_IM = UART_IM_RXIM | UART_IM_RTIM;
    sleep_prepare(UART_INTERRUPT);
    if (*flags & empty) {
        sleep_until(UART_INTERRUPT);
    }
}
