/* The flash of your own board: fill in the three functions of device/flash.h. As they are here, nothing is kept. */
#include "device/flash.h"

int32_t flash_erase(uint32_t address)
{
    (void)address;
    return 1;
}

int32_t flash_program(uint32_t address, const uint8_t *word)
{
    (void)address, (void)word;
    return 1;
}

void flash_read(uint32_t address, uint8_t *to, int32_t bytes)
{
    const uint8_t *from = (const uint8_t *)(uintptr_t)address;
    for (int32_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
}
