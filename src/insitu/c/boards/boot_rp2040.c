/* The first 256 bytes of an RP2040's flash: its ROM copies them to the end of SRAM, checks their CRC and jumps there. They
 * make flash readable at 0x10000000 (command 03, which every serial flash knows, at a quarter of the core's
 * clock), then start the program behind them as a Cortex-M starts: vector table, stack pointer, reset. Runs on rp2040js.
 */
__asm__(
    "    .syntax unified\n"
    "    .thumb\n"
    "    .section .boot2, \"ax\", %progbits\n"
    "    .balign 4\n"
    "boot2:\n"
    "    ldr r3, ssi\n"
    "    movs r1, #0\n"
    "    str r1, [r3, #0x08]\n" /* SSIENR: off while it is set up */
    "    movs r2, #4\n"
    "    str r2, [r3, #0x14]\n" /* BAUDR: the clock's divisor */
    "    ldr r2, frames\n"
    "    str r2, [r3, #0x00]\n" /* CTRLR0: 32 bits, write the command and then read */
    "    ldr r2, command\n"
    "    ldr r0, spi_ctrlr0\n"
    "    str r2, [r0]\n" /* SPI_CTRLR0: command 03, 24 bits of address, on one wire */
    "    str r1, [r3, #0x04]\n" /* CTRLR1: one word at a time */
    "    movs r1, #1\n"
    "    str r1, [r3, #0x08]\n"
    "    ldr r0, vectors_at\n"
    "    ldr r1, vtor\n"
    "    str r0, [r1]\n"
    "    ldr r1, [r0, #0]\n"
    "    ldr r0, [r0, #4]\n"
    "    msr msp, r1\n"
    "    bx r0\n"
    "    .balign 4\n"
    "ssi: .word 0x18000000\n"
    "frames: .word 0x001f0300\n"
    "command: .word 0x03000218\n"
    "spi_ctrlr0: .word 0x180000f4\n"
    "vectors_at: .word 0x10000100\n"
    "vtor: .word 0xe000ed08\n"
    "    .org 252, 0\n"
    "    .word 0x1784c972\n" /* the CRC-32 of the 252 bytes before, as the ROM reckons it */
    "    .text\n"
);
