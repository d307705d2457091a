/* The bytes of a saved state (16 of head, then the struct) as they are sent to and by a device. */
#ifndef INSITU_DEVICE_STATE_H
#define INSITU_DEVICE_STATE_H

#include "device/device.h"

/* Some of the state's bytes, without making all of them: the header is built on demand. */
void state_read(const device_model *model, uint32_t offset, uint8_t *to, uint32_t bytes);

/* The first bytes of a new one: writes the CRC from their header and returns 0, or what is wrong:
 * 1 size, 2 not a state, 3 another model's, 4 damaged, like the program's own load.
 */
int32_t state_head(const device_model *model, const uint8_t *from, int32_t bytes, uint32_t *crc);

/* Some bytes of a new one, the header with the first; is the old one gone? */
uint8_t state_take(const device_model *model, uint32_t offset, const uint8_t *from, int32_t bytes);

/* This many bytes have arrived: returns 0 if they are a state, or what is wrong with them. */
int32_t state_end(const device_session *session, const device_model *model, uint32_t bytes);

#endif
