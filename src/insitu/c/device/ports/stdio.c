/* port.c of a process on a host: standard input and output. Tests and the fuzzer run the firmware this way. */
#include <unistd.h>

#include "device/port.h"

int32_t port_read(uint8_t *to, int32_t most)
{
    const ssize_t got = read(0, to, (size_t)most);
    return got > 0 ? (int32_t)got : -1;
}

void port_write(const uint8_t *from, int32_t count)
{
    while (count > 0) {
        const ssize_t sent = write(1, from, (size_t)count);
        if (sent <= 0) {
            _exit(1); /* the reader is gone */
        }
        from += sent;
        count -= (int32_t)sent;
    }
}
