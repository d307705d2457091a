/* Bytes in and out over a UART that insitu has no driver for: write these three functions with its registers, and
 * remove the #error. The drivers of other chips are in insitu's c/boards/ (uart_*.c).
 */
#include "boards/startup.h"
#include "device/port.h"

#error "write port_start, port_read and port_write for the UART of this board"

/* Clock, pins and baud rate; startup.c calls it before main. */
void port_start(void)
{
}

/* Wait for at least one byte, take at most `most`, and return how many. A lost byte shows in the frame's CRC. */
int32_t port_read(uint8_t *to, int32_t most)
{
    (void)to;
    (void)most;
    return -1;
}

/* Send all of them. */
void port_write(const uint8_t *from, int32_t count)
{
    (void)from;
    (void)count;
}
