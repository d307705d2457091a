/* The flash of an nRF51 or nRF52 through its controller (NVMC), whose registers are the same in both. A word is 4 bytes,
 * a page 1,024 (nRF51) or 4,096 (nRF52). The core stops while a page is erased (up to 22 ms, 90 ms) or a word is
 * programmed (46 us, 41 us).
 */
#include "boards/mmio.h"
#include "device/flash.h"

#define READY REG(0x4001e400u)
#define CONFIG REG(0x4001e504u)
#define ERASEPAGE REG(0x4001e508u)

enum { READING, WRITING, ERASING };

static int32_t set(uint32_t mode)
{
    CONFIG = mode;
    return becomes(&READY, 1, 1);
}

/* Back to reading. Returns 0 if everything went well. */
static int32_t done(int32_t went_well)
{
    went_well &= becomes(&READY, 1, 1);
    return !(set(READING) && went_well);
}

int32_t flash_erase(uint32_t address)
{
    if (!set(ERASING)) {
        return 1;
    }
    ERASEPAGE = address;
    return done(1);
}

int32_t flash_program(uint32_t address, const uint8_t *word)
{
    if (!set(WRITING)) {
        return 1;
    }
    REG(address) = word[0] | (uint32_t)word[1] << 8 | (uint32_t)word[2] << 16 | (uint32_t)word[3] << 24;
    return done(1);
}

void flash_read(uint32_t address, uint8_t *to, int32_t bytes)
{
    const uint8_t *from = (const uint8_t *)(uintptr_t)address;
    for (int32_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
}
