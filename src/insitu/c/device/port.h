/* The two functions that a board must provide: the rest of the protocol is the same on every machine. */
#ifndef INSITU_DEVICE_PORT_H
#define INSITU_DEVICE_PORT_H

#include <stdint.h>

/* Waits for at least one byte, writes at most `most` to `to` and returns how many; negative at the end of the line. */
int32_t port_read(uint8_t *to, int32_t most);

/* Sends all of them. */
void port_write(const uint8_t *from, int32_t count);

#endif
