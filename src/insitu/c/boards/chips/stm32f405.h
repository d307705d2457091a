/* STM32F405, F407, F415 or F417 at 168 MHz. Runs on QEMU's netduinoplus2. */
#define PLL_TIMES 168u
#define WAIT_STATES 5u
#include "boards/chips/stm32_f2f4.h"
