/* Check an input before a program runs on it. */
#ifndef INSITU_DEVICE_CHECK_H
#define INSITU_DEVICE_CHECK_H

#include "device/device.h"

int32_t device_check(const device_input *input); /* DEVICE_OK, DEVICE_NOT_FINITE or DEVICE_LABEL */

#endif
