/* The two functions a board has to have: everything else of the protocol is the same on every machine. */
#ifndef INSITU_DEVICE_PORT_H
#define INSITU_DEVICE_PORT_H

#include <stdint.h>

/* Waits for at least one byte, gives how many of at most `most` it wrote to `to`; negative: there will be no more. */
int32_t port_read(uint8_t *to, int32_t most);

/* Sends all of them. */
void port_write(const uint8_t *from, int32_t count);

#endif
