/* What startup.c and the linker script share. */
#ifndef INSITU_STARTUP_H
#define INSITU_STARTUP_H

#include <stdint.h>

#define STACK_PAINT 0xa5a5a5a5u

/* an entry of the vector table: the first is the stack's top, the others are handlers */
typedef union {
    void (*handler)(void);
    uint32_t *address;
} vector;

/* A port may define these: setup before main (clock, pins, baud rate), and what to do when the core traps. */
void port_start(void);
void fault(void);

#endif
