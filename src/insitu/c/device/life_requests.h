/* The protocol's requests for a program that keeps its own samples: docs/protocol.md says what each does. */
#ifndef INSITU_LIFE_REQUESTS_H
#define INSITU_LIFE_REQUESTS_H

#include <stdint.h>

/* Once, after the initial state was set. */
void life_start(void);

/* Ends the trial of a row (follow.h), which uses the arena between two requests. */
void life_end(void);

/* Serves one; `data` has `size` bytes, and room for the answer's. Returns a status of device.h. */
int32_t life_request(int32_t kind, int32_t part, uint32_t offset, uint32_t count, uint8_t *data, int32_t *size);

#endif
