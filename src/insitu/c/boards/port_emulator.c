/* Bytes in and out on insitu's emulator: a port that moves whole blocks, since each access leaves the emulated core.
 * A read that returns 0 found no bytes yet: the emulator stops there until some are sent to it.
 */
#include "device/port.h"

typedef struct {
    volatile uint32_t address, count, read, write;
} block_port;

#define PORT ((block_port *)0x40000000u)

int32_t port_read(uint8_t *to, int32_t most)
{
    int32_t got;
    PORT->address = (uint32_t)(uintptr_t)to;
    PORT->count = (uint32_t)most;
    do {
        got = (int32_t)PORT->read;
    } while (got == 0);
    return got;
}

void port_write(const uint8_t *from, int32_t count)
{
    PORT->address = (uint32_t)(uintptr_t)from;
    PORT->count = (uint32_t)count;
    PORT->write = 1;
}
