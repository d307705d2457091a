/* Pins of every STM32 except the F1: a pin of a port becomes the pin of a peripheral. */
#ifndef INSITU_STM32_GPIO_H
#define INSITU_STM32_GPIO_H

#include "boards/mmio.h"

#define GPIO_MODER(port) REG((port) + 0x00u)
#define GPIO_OSPEEDR(port) REG((port) + 0x08u)
#define GPIO_PUPDR(port) REG((port) + 0x0cu)
#define GPIO_AFRL(port) REG((port) + 0x20u)
#define GPIO_AFRH(port) REG((port) + 0x24u)

enum { ALTERNATE = 2, QUICK = 1, PULL_UP = 1 };

static inline void put_bits(volatile uint32_t *reg, uint32_t at, uint32_t width, uint32_t value)
{
    *reg = (*reg & ~(((1u << width) - 1) << at)) | value << at;
}

/* Pulled up, so that an open line is idle, not noise. */
static inline void stm32_pin(uint32_t port, uint32_t pin, uint32_t function)
{
    put_bits(pin < 8 ? &GPIO_AFRL(port) : &GPIO_AFRH(port), 4 * (pin & 7), 4, function);
    put_bits(&GPIO_OSPEEDR(port), 2 * pin, 2, QUICK);
    put_bits(&GPIO_PUPDR(port), 2 * pin, 2, PULL_UP);
    put_bits(&GPIO_MODER(port), 2 * pin, 2, ALTERNATE);
}

#endif
