/* STM32F205, F207, F215 or F217 at 120 MHz. Runs on QEMU's netduino2. */
#define PLL_TIMES 120u
#define WAIT_STATES 3u
#include "boards/chips/stm32_f2f4.h"
