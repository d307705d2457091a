/* RP2040 at 125 MHz from a crystal of 12 MHz, as on the Raspberry Pi Pico: UART0 on GPIO0 (sends) and GPIO1 (receives).
 * Runs on rp2040js.
 */
#include "boards/mmio.h"

#define UART 0x40034000u /* UART0 */
#define CLOCKS_CLK_REF_CTRL REG(0x40008030u)
#define CLOCKS_CLK_REF_CTRL_SRC(n) ((n) << 0)
#define CLOCKS_CLK_REF_SELECTED REG(0x40008038u)
#define CLOCKS_CLK_SYS_CTRL REG(0x4000803cu)
#define CLOCKS_CLK_SYS_CTRL_SRC(n) ((n) << 0)
#define CLOCKS_CLK_SYS_SELECTED REG(0x40008044u)
#define CLOCKS_CLK_PERI_CTRL REG(0x40008048u)
#define CLOCKS_CLK_PERI_CTRL_ENABLE (1u << 11)
#define RESETS_RESET REG(0x4000c000u)
#define RESETS_RESET_IO_BANK0 (1u << 5)
#define RESETS_RESET_PADS_BANK0 (1u << 8)
#define RESETS_RESET_PLL_SYS (1u << 12)
#define RESETS_RESET_UART0 (1u << 22)
#define RESETS_RESET_DONE REG(0x4000c008u)
#define IO_BANK0_GPIO0_CTRL REG(0x40014004u)
#define IO_BANK0_GPIO1_CTRL REG(0x4001400cu)
#define PADS_BANK0_GPIO1 REG(0x4001c008u)
#define PADS_BANK0_GPIO1_PDE (1u << 2)
#define PADS_BANK0_GPIO1_PUE (1u << 3)
#define XOSC_CTRL REG(0x40024000u)
#define XOSC_STATUS REG(0x40024004u)
#define XOSC_STATUS_STABLE (1u << 31)
#define XOSC_STARTUP REG(0x4002400cu)
#define PLL_SYS_CS REG(0x40028000u)
#define PLL_SYS_CS_REFDIV(n) ((n) << 0)
#define PLL_SYS_CS_LOCK (1u << 31)
#define PLL_SYS_PWR REG(0x40028004u)
#define PLL_SYS_PWR_DSMPD (1u << 2)
#define PLL_SYS_PWR_POSTDIVPD (1u << 3)
#define PLL_SYS_FBDIV_INT REG(0x40028008u)
#define PLL_SYS_PRIM REG(0x4002800cu)
#define PLL_SYS_PRIM_POSTDIV2(n) ((n) << 12)
#define PLL_SYS_PRIM_POSTDIV1(n) ((n) << 16)

enum { RING = 6500000, CRYSTAL = 12000000, FAST = 125000000, TO_UART = 2, FROM_XOSC = 2, FROM_AUX = 1 };
enum { XOSC_ON = 0xfabaa0, ONE_MS = 47 };

/* Out of reset, without which the registers of a peripheral do not answer. */
static int32_t wake(uint32_t peripherals)
{
    RESETS_RESET &= ~peripherals;
    return becomes(&RESETS_RESET_DONE, peripherals, peripherals);
}

/* 12 MHz * 125 / 6 / 2 */
static int32_t start_pll(void)
{
    RESETS_RESET |= RESETS_RESET_PLL_SYS;
    if (!wake(RESETS_RESET_PLL_SYS)) {
        return 0;
    }
    PLL_SYS_CS = PLL_SYS_CS_REFDIV(1u);
    PLL_SYS_FBDIV_INT = 125;
    PLL_SYS_PWR = PLL_SYS_PWR_DSMPD | PLL_SYS_PWR_POSTDIVPD;
    if (!becomes(&PLL_SYS_CS, PLL_SYS_CS_LOCK, PLL_SYS_CS_LOCK)) {
        return 0;
    }
    PLL_SYS_PRIM = PLL_SYS_PRIM_POSTDIV1(6u) | PLL_SYS_PRIM_POSTDIV2(2u);
    PLL_SYS_PWR = PLL_SYS_PWR_DSMPD;
    return 1;
}

/* The clock of the core and of the UART, which is the core's. */
static uint32_t fast_clock(void)
{
    CLOCKS_CLK_SYS_CTRL = CLOCKS_CLK_SYS_CTRL_SRC(0u); /* off the PLL, if a debugger left it there */
    (void)becomes(&CLOCKS_CLK_SYS_SELECTED, 1, 1);
    XOSC_STARTUP = ONE_MS;
    XOSC_CTRL = XOSC_ON;
    if (!becomes(&XOSC_STATUS, XOSC_STATUS_STABLE, XOSC_STATUS_STABLE)) {
        return RING;
    }
    CLOCKS_CLK_REF_CTRL = CLOCKS_CLK_REF_CTRL_SRC(FROM_XOSC);
    if (!becomes(&CLOCKS_CLK_REF_SELECTED, 1u << FROM_XOSC, 1u << FROM_XOSC)) {
        return RING;
    }
    if (!start_pll()) {
        return CRYSTAL;
    }
    CLOCKS_CLK_SYS_CTRL = CLOCKS_CLK_SYS_CTRL_SRC(FROM_AUX);
    return becomes(&CLOCKS_CLK_SYS_SELECTED, 1u << FROM_AUX, 1u << FROM_AUX) ? FAST : CRYSTAL;
}

static uint32_t chip_start(void)
{
    const uint32_t clock = fast_clock();
    CLOCKS_CLK_PERI_CTRL = CLOCKS_CLK_PERI_CTRL_ENABLE;
    (void)wake(RESETS_RESET_IO_BANK0 | RESETS_RESET_PADS_BANK0 | RESETS_RESET_UART0);
    IO_BANK0_GPIO0_CTRL = TO_UART;
    IO_BANK0_GPIO1_CTRL = TO_UART;
    PADS_BANK0_GPIO1 = (PADS_BANK0_GPIO1 & ~PADS_BANK0_GPIO1_PDE) | PADS_BANK0_GPIO1_PUE; /* idle if nobody drives it */
    return clock;
}

/* It does not sleep. */
static void chip_wait(volatile uint32_t *flags, uint32_t empty)
{
    (void)flags;
    (void)empty;
}
