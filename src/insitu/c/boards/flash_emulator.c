/* The flash of insitu's emulator (devices/flash.py), which enforces the rules of NOR flash: words are programmed whole,
 * once between two erases, and only in the pages that the program has reserved. Its last two registers read as 0, or as 1
 * if the page is worn out.
 */
#include "device/flash.h"

typedef struct {
    volatile uint32_t address, source, program, erase;
} flash_port;

#define FLASH ((flash_port *)0x40000100u)

int32_t flash_erase(uint32_t address)
{
    FLASH->address = address;
    FLASH->erase = 1;
    return (int32_t)FLASH->erase;
}

int32_t flash_program(uint32_t address, const uint8_t *word)
{
    FLASH->address = address;
    FLASH->source = (uint32_t)(uintptr_t)word;
    FLASH->program = 1;
    return (int32_t)FLASH->program;
}

void flash_read(uint32_t address, uint8_t *to, int32_t bytes)
{
    const uint8_t *from = (const uint8_t *)(uintptr_t)address;
    for (int32_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
}
