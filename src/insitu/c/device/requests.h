/* The requests of the protocol, for device.c, which receives and answers them. */
#ifndef INSITU_REQUESTS_H
#define INSITU_REQUESTS_H

#include "device/device.h"

/* A request being served: the data of the answer go to `data`, and may overwrite the request's. */
typedef struct {
    int32_t verb, index;
    uint32_t count, offset;
    uint8_t *data;
    int32_t size; /* data bytes received; afterwards those of the answer */
} request;

/* What was written and read so far no longer counts. */
void requests_forget(device_session *session);

/* Serves a request of this kind, unless it is the one before again (its CRC is the same); returns the status. */
int32_t requests_serve(device_session *session, const device_model *model, int32_t kind, request *r, uint32_t crc);

#endif
